"""The passes of a unit: the forward, and in training the backward. They share kernels, and the names of kernels."""

from __future__ import annotations

import dataclasses

from longhand.emit.buffer_words import BufferWords
from longhand.emit.ledger import Ledger
from longhand.emit.names import UnitNames
from longhand.emit.naming import name_unit
from longhand.schedule.plan import KernelPlan, TrainingPlan, UnitPlan


@dataclasses.dataclass(frozen=True, eq=False)
class Pass:
    """One pass: what it runs, in which words."""

    plan: UnitPlan
    names: UnitNames
    words: BufferWords


def name_backward(training: TrainingPlan, ledger: Ledger | None, forward: UnitNames) -> Pass:
    """The backward pass, named after the forward: a kernel that both launch keeps its name."""
    known = Ledger({**(ledger.kernels if ledger is not None else {}), **forward.kernels})
    names = name_unit(training.backward, known, frozenset(forward.kernels))
    return Pass(training.backward, names, BufferWords(training.backward.program.graph))


def kernels_of(passes: list[Pass]) -> dict[str, tuple[KernelPlan, Pass]]:
    """Every kernel of the unit, by key, with the first pass that launches it."""
    found: dict[str, tuple[KernelPlan, Pass]] = {}
    for one in passes:
        for key, kernel in one.plan.kernels.items():
            found.setdefault(key, (kernel, one))
    return found
