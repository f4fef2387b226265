"""Names a unit: its forward pass, and in training its backward pass and what layers save for that.

This is the last that is decided; emit/ only prints.
"""

from __future__ import annotations

from longhand.schedule.names.backward_names import find_saved_layers, name_backward
from longhand.schedule.names.buffer_names import BufferWords
from longhand.schedule.names.dimension_names import DimWords
from longhand.schedule.names.naming import name_unit, with_records
from longhand.schedule.names.unit_names import Ledger, NamedPlan, NamedUnit
from longhand.schedule.names.value_origins import NOTHING_RENAMED, find_renamed
from longhand.schedule.plan import TrainingPlan, UnitPlan


def name_plans(
    plan: UnitPlan, *, ledger: Ledger | None = None, training: TrainingPlan | None = None
) -> NamedUnit:
    """The plans of a unit's passes with every word that its files use.

    Args:
        plan: The complete plan.
        ledger: The names that the previous version of this unit had.
        training: The backward pass, with `plan` its forward pass.
    """
    graph, buffers = plan.program.graph, plan.program.buffers
    renamed = NOTHING_RENAMED if ledger is None else find_renamed(ledger.statements, graph)
    words = BufferWords(graph, buffers, renamed=renamed)
    dims = DimWords(graph, buffers, layers=words, chains=plan.program.layers)
    names = name_unit(plan, ledger, words=words, dims=dims)
    forward = NamedPlan(plan, names, words)
    if training is None:
        return NamedUnit((forward,))
    backward = name_backward(training, ledger, forward)
    records = find_saved_layers(training.graphs, forward, backward)
    forward = NamedPlan(plan, with_records(plan, names, words, records), words)
    return NamedUnit((forward, backward), training.graphs, records)
