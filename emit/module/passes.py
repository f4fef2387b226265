"""The passes of a unit: the forward, and in training the backward. They share kernels, and the names of kernels."""

from __future__ import annotations

import dataclasses

from longhand.capture.graph import BackwardKind, GradientPart, Provenance
from longhand.emit.names.backward_dimensions import backward_dims
from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.ledger import Ledger
from longhand.emit.names.naming import name_unit
from longhand.emit.names.unit_names import UnitNames
from longhand.schedule.plan import KernelPlan, TrainingPlan, UnitPlan


@dataclasses.dataclass(frozen=True, eq=False)
class Pass:
    """One pass: what it runs, in which words."""

    plan: UnitPlan
    names: UnitNames
    words: BufferWords


def name_backward(training: TrainingPlan, ledger: Ledger | None, forward: Pass) -> Pass:
    """The backward pass, named after the forward: a kernel that both launch keeps its name."""
    known = Ledger({**(ledger.kernels if ledger is not None else {}), **forward.names.kernels})
    graphs = training.graphs
    given: dict[str, tuple[str, ...]] = {}
    saved: dict[str, str] = {}  # by the forward's value: its placeholder here
    for entry in graphs.inputs:
        value = graphs.forward.outputs[entry.source].value if isinstance(entry.source, int) else None
        if entry.kind in (BackwardKind.SAVED, BackwardKind.RESULT) and isinstance(value, str):
            variable = forward.names.buffers.get(value, "")  # where each of its words is another layer's
            given[entry.node] = (*forward.words.candidates(value), *[variable] * variable.isidentifier())
            saved[value] = entry.node
        elif entry.kind is BackwardKind.GRADIENT and isinstance(value, str):
            given[entry.node] = tuple(f"d_{word}" for word in forward.words.candidates(value))
    differentiated: dict[str, str] = {}
    lowered = training.backward.program.graph  # what lowering added has words, too
    for node in lowered.graph.nodes:
        origin: Provenance = node.meta.get("provenance", Provenance())
        if origin.gradient_of in forward.words.nodes:
            given[node.name] = tuple(forward.words.gradient(origin))
            value = forward.words.value_of_gradient(origin)
            if value in saved and origin.part is GradientPart.WHOLE:
                differentiated[node.name] = saved[value]
    words = BufferWords(
        lowered, training.backward.program.buffers, given, forward.words.renamed, differentiated
    )
    dims = backward_dims(graphs, forward.words, words, training.backward.program)
    names = name_unit(training.backward, known, frozenset(forward.names.kernels), words, dims)
    return Pass(training.backward, names, words)


def kernels_of(passes: list[Pass]) -> dict[str, tuple[KernelPlan, Pass]]:
    """Every kernel of the unit, by key, with the first pass that launches it."""
    found: dict[str, tuple[KernelPlan, Pass]] = {}
    for one in passes:
        for key, kernel in one.plan.kernels.items():
            known, first = found.get(key, (kernel, one))
            found[key] = (known | kernel, first)  # both passes call one file
    return found
