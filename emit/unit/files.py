"""A unit's files: from the complete plan to text, by relative path; its kernels in their language.

The list of languages is open: `longhand.targets.register` adds to it, docs/adding_a_target.md tells how.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Protocol

from longhand.emit.cpp.headers import CppSource
from longhand.emit.cpp.kernel import print_cpp_headers, print_cpp_kernel
from longhand.emit.cpp.list_binding import list_face
from longhand.emit.module.backward_py import trained_call, write_backward
from longhand.emit.module.backward_writer import BackwardWriter
from longhand.emit.module.check_py import write_check
from longhand.emit.module.constants import constants_file
from longhand.emit.module.model_py import ModelWriter, write_model
from longhand.emit.text.kernel_head import FACE_WIDTH, head_lines, headed
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.reference import Reference, write_reference
from longhand.emit.triton.kernel import print_triton_kernel
from longhand.emit.unit.lock import training_report, write_lock, write_readme
from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.on_disk import BASE
from longhand.emit.unit.templates import (
    format_files,
    imported_from_runtime,
    render_template,
    write_runtime_files,
)
from longhand.emit.unit.torch_kernels import NONE_IN_TORCH, InTorch, print_torch_kernel
from longhand.errors import EditError
from longhand.schedule.named_plan import KernelNames, NamedPlan, NamedUnit, kernels_of
from longhand.schedule.plan import KernelPlan


class Language(Protocol):
    """What a target's kernels are written in."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> Mapping[str, str]:
        """A kernel's files, not yet formatted, by path in the unit.

        One of them is ``kernels/NAME.py``, which defines the kernel's host function and `reference`. The function
        takes tensors, then sizes, strides and scalars, in the plan's order, and fills the tensors that it writes.

        What it raises costs the kernel: it becomes PyTorch calls.
        """

    def shared(self, files: Mapping[str, str]) -> Mapping[str, str]:
        """Further files, by path, that these kernels' files need."""


class Cpp:
    """C++ for the CPU, with a Python face beside it."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> dict[str, str]:
        """The source, and what loads it."""
        return {
            f"kernels/{names.kernel}.cpp": print_cpp_kernel(kernel, names),
            f"kernels/{names.kernel}.py": render_template(
                "cpp_kernel.py.jinja",
                title=head_lines(names.kernel, names.title, FACE_WIDTH, python_docstring),
                kernel=names,
                reference=reference,
                uses_torch=reference.uses_torch,
                lists=list_face(kernel, names),
            ),
        }

    def shared(self, files: Mapping[str, str]) -> dict[str, str]:
        """Headers."""
        sources = [text for text in files.values() if isinstance(text, CppSource)]
        return {f"kernels/{header}": text for header, text in print_cpp_headers(sources).items()}


class Triton:
    """Triton for CUDA."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> dict[str, str]:
        """One file."""
        return {f"kernels/{names.kernel}.py": print_triton_kernel(kernel, names, reference)}

    def shared(self, files: Mapping[str, str]) -> dict[str, str]:
        """None: they import Triton."""
        return {}


LANGUAGES: dict[str, Language] = {"cpu": Cpp(), "cuda": Triton()}


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


def write_kernels(passes: list[NamedPlan], in_torch: Mapping[str, InTorch] = NONE_IN_TORCH) -> KernelFiles:
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


def emit_unit(unit: NamedUnit, *, in_torch: Mapping[str, InTorch] = NONE_IN_TORCH) -> dict[str, str | bytes]:
    """Everything that the unit's folder holds.

    Args:
        unit: The complete plans, named.
        in_torch: By key, the kernels that are to be PyTorch calls, and why.

    Returns:
        Text (bytes for constants.pt) by path relative to the folder, ``/`` between parts.
    """
    passes = headed(unit.passes)
    forward, graphs = passes[0], unit.training
    backward: dict[str, str] = {}
    if graphs is None:
        model = write_model(forward)
    else:
        call = trained_call(graphs, forward.plan, passes[1].plan, unit.records)
        assert unit.gradients is not None
        writer = ModelWriter(forward, call)
        of_backward = BackwardWriter(graphs, passes[1], unit.gradients, writer)
        writer.training = dataclasses.replace(call, saved=of_backward.saved_of_call)
        model = writer.write()
        of_backward.elsewhere = writer.constants
        backward["backward.py"] = write_backward(graphs, writer, of_backward)
    kernels = write_kernels(passes, in_torch)
    texts = {
        "__init__.py": render_template(
            "init.py.jinja", name=model.exported, source=forward.plan.program.graph.source
        ),
        "model.py": model.text,
        **backward,
        **kernels.files,
        "check.py": write_check(passes, kernels.references, model),
        "README.md": write_readme(
            passes, model.exported, training_report(graphs, *passes) if graphs is not None else []
        ),
    }
    runtime = write_runtime_files(imported_from_runtime(texts))
    texts[".gitattributes"] = render_template("gitattributes.jinja")
    files: dict[str, str | bytes] = dict(sorted({**format_files(texts), **runtime}.items()))
    if model.stored:
        files["constants.pt"] = constants_file(model.stored)
    base = {f"{BASE}/{path}": content for path, content in files.items() if isinstance(content, str)}
    lock = write_lock(passes, files, model.exported, kernels.in_torch)
    return {**files, **base, LOCK: lock}
