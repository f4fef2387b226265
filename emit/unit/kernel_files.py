"""The files under kernels/: one kernel each, with its reference beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.emit.module.passes import Pass, kernels_of
from longhand.emit.module.templates import render_template
from longhand.emit.text.reference import Reference, write_reference
from longhand.emit.unit.languages import LANGUAGES
from longhand.emit.unit.torch_kernels import NONE_IN_TORCH, InTorch, print_torch_kernel
from longhand.errors import EditError


@dataclasses.dataclass(frozen=True)
class KernelFiles:
    """What stands under kernels/.

    Attributes:
        files: By path in the unit, not yet formatted.
        references: By kernel key.
        in_torch: The kernels that are PyTorch calls, by key.
    """

    files: Mapping[str, str]
    references: Mapping[str, Reference]
    in_torch: Mapping[str, InTorch]


def write_kernels(passes: list[Pass], in_torch: Mapping[str, InTorch] = NONE_IN_TORCH) -> KernelFiles:
    """Every kernel of the unit, its Python face and the package that exports them all.

    Args:
        passes: The forward, and in training the backward.
        in_torch: By key, the kernels that must be PyTorch calls; those that cannot be printed are added.
    """
    kernels = kernels_of(passes)
    references = {
        key: write_reference(kernel, one.names.kernels[key], one.words)
        for key, (kernel, one) in kernels.items()
    }
    _refuse_clash({key: one.names.kernels[key].kernel for key, (_, one) in kernels.items()})
    language = LANGUAGES[passes[0].plan.options.target.name]
    files: dict[str, str] = {}
    written: dict[str, str] = {}
    in_torch = dict(in_torch)
    for key, (kernel, one) in kernels.items():
        name = one.names.kernels[key]
        if key not in in_torch:
            try:
                written |= language.files(kernel, name, references[key])
            except Exception as error:  # a bug of a printer: it costs this kernel
                in_torch[key] = InTorch("cannot be printed", f"{type(error).__name__}: {error}")
        if key in in_torch:
            text = print_torch_kernel(kernel, name, references[key], in_torch[key])
            files[f"kernels/{name.kernel}.py"] = text
    files |= written
    files |= language.shared(written)
    exported = sorted(one.names.kernels[key].kernel for key, (_, one) in kernels.items())
    files["kernels/__init__.py"] = render_template("kernels_init.py.jinja", kernels=exported)
    return KernelFiles(files, references, in_torch)


def _refuse_clash(names: Mapping[str, str]) -> None:
    """One file, one kernel: where two would be written to one path, calls of the one would run the other.

    Raises:
        EditError: Two kernels have one name; both are told.
    """
    holders: dict[str, str] = {}
    for key, name in names.items():
        other = holders.setdefault(name.lower(), key)  # some file systems tell no case apart
        if other != key:
            raise EditError(
                f"Two kernels are called {name}: {other} and {key}.",
                hint="Delete one of them from the ledger of longhand.lock, and generate again.",
            )
