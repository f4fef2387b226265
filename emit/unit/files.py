"""A unit's files: from the complete plan to text, by relative path."""

from __future__ import annotations

from collections.abc import Mapping

from longhand.emit.layers.saved_layers import find_saved_layers
from longhand.emit.module.backward_py import trained_call, write_backward
from longhand.emit.module.check_py import write_check
from longhand.emit.module.constants import constants_file
from longhand.emit.module.model_py import ModelWriter, write_model
from longhand.emit.module.passes import Pass, name_backward
from longhand.emit.module.templates import render_template
from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.dimension_names import DimWords
from longhand.emit.names.ledger import Ledger
from longhand.emit.names.naming import name_unit, with_records
from longhand.emit.names.renamed_locals import NOTHING_RENAMED, find_renamed
from longhand.emit.proof.python import prove_python
from longhand.emit.text.formatting import format_files
from longhand.emit.unit.kernel_files import write_kernels
from longhand.emit.unit.lock import write_lock
from longhand.emit.unit.lock_schema import LOCK
from longhand.emit.unit.on_disk import BASE
from longhand.emit.unit.readme import write_readme
from longhand.emit.unit.runtime_py import imported_from_runtime, write_runtime
from longhand.emit.unit.torch_kernels import NONE_IN_TORCH, InTorch
from longhand.emit.unit.training_report import training_report
from longhand.schedule.plan import TrainingPlan, UnitPlan


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
    names = name_unit(
        plan, ledger, words=words, dims=DimWords(graph, plan.program.buffers, chains=plan.program.layers)
    )
    passes = [Pass(plan, names, words)]
    backward: dict[str, str] = {}
    if training is None:
        model = write_model(plan, names, words)
    else:
        passes.append(name_backward(training, ledger, passes[0]))
        records = find_saved_layers(training.graphs, *passes)
        names = with_records(plan, names, words, records)
        passes[0] = Pass(plan, names, words)
        writer = ModelWriter(plan, names, words, trained_call(training.graphs, plan, records))
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
