"""The files under kernels/: one kernel each, with its reference beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.emit.cpp.headers import print_cpp_headers
from longhand.emit.cpp.kernel import print_cpp_kernel
from longhand.emit.cpp.list_binding import list_face
from longhand.emit.module.passes import Pass, kernels_of
from longhand.emit.module.templates import render_template
from longhand.emit.names.unit_names import KernelNames
from longhand.emit.text.reference import Reference, write_reference
from longhand.emit.triton.kernel import print_triton_kernel
from longhand.emit.unit.torch_kernels import NONE_IN_TORCH, InTorch, print_torch_kernel
from longhand.errors import EditError
from longhand.options import Device
from longhand.schedule.plan import KernelPlan


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
    is_cpu = passes[0].plan.options.target.device is Device.CPU
    files: dict[str, str] = {}
    in_torch = dict(in_torch)
    for key, (kernel, one) in kernels.items():
        name = one.names.kernels[key]
        if key not in in_torch:
            try:
                files |= (_cpp_files if is_cpu else _triton_files)(kernel, name, references[key])
            except Exception as error:  # a bug of a printer: it costs this kernel
                in_torch[key] = InTorch("cannot be printed", f"{type(error).__name__}: {error}")
        if key in in_torch:
            text = print_torch_kernel(kernel, name, references[key], in_torch[key])
            files[f"kernels/{name.kernel}.py"] = text
    if is_cpu:
        headers = print_cpp_headers(files[path] for path in list(files) if path.endswith(".cpp"))
        files |= {f"kernels/{header}": text for header, text in headers.items()}
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


def _cpp_files(kernel: KernelPlan, name: KernelNames, reference: Reference) -> dict[str, str]:
    return {
        f"kernels/{name.kernel}.cpp": print_cpp_kernel(kernel, name),
        f"kernels/{name.kernel}.py": render_template(
            "cpp_kernel.py.jinja",
            kernel=name,
            reference=reference,
            uses_torch="torch." in reference.source,
            lists=list_face(kernel, name),
        ),
    }


def _triton_files(kernel: KernelPlan, name: KernelNames, reference: Reference) -> dict[str, str]:
    return {f"kernels/{name.kernel}.py": print_triton_kernel(kernel, name, reference.source)}
