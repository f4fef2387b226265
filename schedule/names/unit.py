"""Names a unit: its forward pass, and in training its backward pass and what layers save for that.

This is the last that is decided; emit/ only prints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from longhand.lower.ir import View
from longhand.schedule.functions.alike_loops import with_words_of_first
from longhand.schedule.functions.lone_loops import without_lone_loops, without_scattered_layers
from longhand.schedule.layers.model_steps import ModelStep
from longhand.schedule.layers.returned_gradients import find_returned_gradients
from longhand.schedule.layers.saved_layers import SavedLayers
from longhand.schedule.modules.settings import numbers_of_kernels
from longhand.schedule.modules.tree import find_modules
from longhand.schedule.names.backward_names import (
    find_saved_layers,
    name_backward,
    name_backward_steps,
    with_forward_names,
    with_kernels,
    with_shared_kernels,
)
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.dimensions.dimension_names import DimNamer
from longhand.schedule.names.layer_names import name_layers
from longhand.schedule.names.naming import externs, name_steps, name_unit, with_records
from longhand.schedule.names.parameter_names import given_values
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
    words = BufferNamer(graph, buffers, renamed=renamed)
    dims = DimNamer(graph, buffers, layers=words, chains=plan.program.layers)
    dims.learn_copies(externs(plan))
    inputs = training.graphs.inputs if training is not None else ()
    saved = frozenset(entry.source for entry in inputs if isinstance(entry.source, str))
    if training is None:
        return NamedUnit((_complete(NamedPlan(plan, name_unit(plan, ledger, words, dims), words, dims)),))
    forward = NamedPlan(plan, name_steps(plan, words, saved), words, dims)
    back = name_backward_steps(training, forward)
    flat = without_lone_loops(plan, forward.names.steps, back.names.steps)
    if flat is not plan:
        return name_plans(flat, ledger=ledger, training=training)
    records = find_saved_layers(training.graphs, forward, back)
    records = with_forward_names(records, _with_saved(forward, records, saved))
    recorded = _with_saved(forward, records, saved)
    flat = without_scattered_layers(plan, recorded.names.steps)
    if flat is not plan:
        return name_plans(flat, ledger=ledger, training=training)
    forward = with_kernels(recorded, ledger)
    forward, backward = with_shared_kernels(forward, name_backward(training, ledger, forward), ledger)
    gradients = find_returned_gradients(
        training.graphs,
        training.backward,
        backward.names.steps,
        backward.names.buffers,
        given_values(training.graphs.forward),
    )
    passes = _complete(forward, also=backward.names.steps), _complete(backward, records)
    return NamedUnit(passes, training.graphs, records, gradients)


def _with_saved(forward: NamedPlan, records: Sequence[SavedLayers], saved: frozenset[str]) -> NamedPlan:
    """A forward pass whose layers save records."""
    names = with_records(forward.plan, forward.names, forward.words, records, saved)
    return dataclasses.replace(forward, names=names)


def _complete(
    named: NamedPlan, records: Sequence[SavedLayers] = (), also: Sequence[ModelStep] = ()
) -> NamedPlan:
    """A pass with the words of its layers, and with what its module holds.

    Args:
        named: The pass.
        records: Of a backward pass: what layers saved for it.
        also: Of a forward pass: the backward pass's steps, whose loops count the module's layers by place, too.
    """
    kept = {result.buffer for result in named.plan.results if isinstance(result, View)}
    layers = name_layers(named.names.steps, named.words, named.names.buffers, records, kept)
    layers = with_words_of_first(layers, named.names.steps, named.words)
    plan = named.plan
    variables = {*named.names.buffers.values()}.union(*(one.variables.values() for one in layers.values()))
    modules = find_modules(plan.program.graph, plan.buffers, named.names.steps, named.words, variables, also)
    names = dataclasses.replace(named.names, layers=layers)
    names = dataclasses.replace(names, numbers=numbers_of_kernels(plan, names))
    return dataclasses.replace(named, names=names, modules=modules)
