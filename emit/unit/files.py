"""A unit's files: from the complete plan to text, by relative path; its kernels in their language.

The list of languages is open: `longhand.targets.register` adds to it, docs/adding_a_target.md tells how.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Protocol

from longhand.emit.cpp.kernel import print_cpp_headers, print_cpp_kernel
from longhand.emit.cpp.list_binding import list_face
from longhand.emit.module.backward_py import trained_call, write_backward
from longhand.emit.module.check_py import write_check
from longhand.emit.module.constants import constants_file
from longhand.emit.module.model_py import ModelWriter, write_model
from longhand.emit.module.passes import find_saved_layers, name_backward
from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.dimension_names import DimWords
from longhand.emit.names.naming import name_unit, with_records
from longhand.emit.names.unit_names import KernelNames, Ledger, Pass, kernels_of
from longhand.emit.names.value_origins import NOTHING_RENAMED, find_renamed
from longhand.emit.names.words import python_docstring
from longhand.emit.proof.python import prove_python
from longhand.emit.text.reference import Reference, write_reference
from longhand.emit.text.title_lines import FACE_WIDTH, head_lines
from longhand.emit.triton.kernel import print_triton_kernel
from longhand.emit.unit.lock import training_report, write_lock, write_readme
from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.on_disk import BASE
from longhand.emit.unit.templates import format_files, imported_from_runtime, render_template, write_runtime
from longhand.emit.unit.torch_kernels import NONE_IN_TORCH, InTorch, print_torch_kernel
from longhand.errors import EditError
from longhand.schedule.plan import KernelPlan, TrainingPlan, UnitPlan


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
                uses_torch="torch." in reference.source,
                lists=list_face(kernel, names),
            ),
        }

    def shared(self, files: Mapping[str, str]) -> dict[str, str]:
        """Headers."""
        sources = [text for path, text in files.items() if path.endswith(".cpp")]
        return {f"kernels/{header}": text for header, text in print_cpp_headers(sources).items()}


class Triton:
    """Triton for CUDA."""

    def files(self, kernel: KernelPlan, names: KernelNames, reference: Reference) -> dict[str, str]:
        """One file."""
        return {f"kernels/{names.kernel}.py": print_triton_kernel(kernel, names, reference.source)}

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


def emit_unit(
    plan: UnitPlan,
    *,
    ledger: Ledger | None = None,
    training: TrainingPlan | None = None,
    in_torch: Mapping[str, InTorch] = NONE_IN_TORCH,
) -> dict[str, str | bytes]:
    """Everything that the unit's folder holds.

    Args:
        plan: The complete plan.
        ledger: The names that the previous version of this unit had.
        training: The backward pass, with `plan` its forward pass.
        in_torch: By key, the kernels that are to be PyTorch calls, and why.

    Returns:
        Text (bytes for constants.pt) by path relative to the folder, ``/`` between parts.

    Raises:
        ProofError: A Python file would not run: a bug of ours.
    """
    graph = plan.program.graph
    renamed = NOTHING_RENAMED if ledger is None else find_renamed(ledger.statements, graph)
    words = BufferWords(graph, plan.program.buffers, renamed=renamed)
    dims = DimWords(graph, plan.program.buffers, layers=words, chains=plan.program.layers)
    names = name_unit(plan, ledger, words=words, dims=dims)
    passes = [Pass(plan, names, words)]
    backward: dict[str, str] = {}
    if training is None:
        model = write_model(plan, names, words)
    else:
        passes.append(name_backward(training, ledger, passes[0]))
        records = find_saved_layers(training.graphs, *passes)
        names = with_records(plan, names, words, records)
        passes[0] = Pass(plan, names, words)
        writer = ModelWriter(
            plan, names, words, trained_call(training.graphs, plan, training.backward, records)
        )
        model = writer.write()
        backward["backward.py"] = write_backward(training.graphs, writer, passes[1])
    kernels = write_kernels(passes, in_torch)
    texts = {
        "__init__.py": render_template(
            "init.py.jinja", name=model.exported, source=plan.program.graph.source
        ),
        "model.py": model.text,
        **backward,
        **kernels.files,
        "check.py": write_check(passes, kernels.references, model),
        "README.md": write_readme(
            passes, model.exported, training_report(training.graphs, *passes) if training is not None else []
        ),
    }
    texts["runtime.py"] = write_runtime(imported_from_runtime(texts))
    texts[".gitattributes"] = render_template("gitattributes.jinja")
    formatted = format_files(texts)
    prove_python(formatted)
    files: dict[str, str | bytes] = dict(sorted(formatted.items()))
    if model.stored:
        files["constants.pt"] = constants_file(model.stored)
    base = {f"{BASE}/{path}": content for path, content in files.items() if isinstance(content, str)}
    lock = write_lock(passes, files, model.exported, kernels.in_torch)
    return {**files, **base, LOCK: lock}
