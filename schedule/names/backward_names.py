"""The backward pass of a unit: named after the forward, with which it shares kernels and what is saved.

What each layer of a loop saves for its backward pass is a record of its own, ``BlockSaved``; the dimensions of a
backward pass have the words that the forward pass has for what it saved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

import torch
from torch import fx

from longhand.capture.graph import (
    BackwardInput,
    CapturedGraph,
    InputKind,
    TrainingGraphs,
)
from longhand.lower.ir import Program, View
from longhand.schedule.layers.loops import record_of
from longhand.schedule.layers.model_steps import LayerCall, Loop, ModelStep, loops_of, plain_steps
from longhand.schedule.layers.saved_alike import (
    given_what_they_save,
    held_alike,
    made_alike,
    of_other_layers,
    there_before,
)
from longhand.schedule.layers.saved_layers import SavedLayers
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.dimensions.compound_names import ProductWord, Words
from longhand.schedule.names.dimensions.dimension_names import DimNamer
from longhand.schedule.names.dimensions.reshaped_words import reshaped
from longhand.schedule.names.layer_names import name_block
from longhand.schedule.names.module_names import ordinal_classes
from longhand.schedule.names.naming import callers_in, externs, name_kernels, name_steps, name_unit
from longhand.schedule.names.shared.callers import Callers
from longhand.schedule.names.shared.function_variables import FunctionVariables
from longhand.schedule.names.shared.words_of_forward_pass import is_again, words_of_forward_pass
from longhand.schedule.names.unit_names import KernelNames, Ledger, NamedPlan
from longhand.schedule.names.variables import list_names
from longhand.schedule.names.weight_names import weights_of
from longhand.schedule.plan import KernelPlan, TrainingPlan, UnitPlan, buffers_read, facts_of
from longhand.schedule.sizes import as_size


def _backward_dims(
    training: TrainingGraphs, forward: BufferNamer, backward: BufferNamer, program: Program
) -> DimNamer:
    """The words of a backward graph's dimensions.

    Args:
        training: Both graphs, as they were captured.
        forward: Words for the forward's values.
        backward: Words for the backward's.
        program: The backward graph, lowered.
    """
    graph = program.graph
    dims = DimNamer(training.forward, {}, layers=forward)
    given: dict[str, Words] = {}
    for entry in training.inputs:
        value = backward.nodes[entry.node].meta["val"]
        place = entry.source
        source = training.forward.outputs[place].value if isinstance(place, int) else place
        if isinstance(value, torch.Tensor) and isinstance(source, str) and entry.node not in graph.paths:
            node = forward.nodes[source]
            of = forward.nodes.get(forward.provenance(source).gradient_of, node)
            given[entry.node] = _flattened(of, value, dims)
    return DimNamer(graph, program.buffers, given, _known(graph, forward, backward, dims))


def _known(
    graph: CapturedGraph, forward: BufferNamer, backward: BufferNamer, dims: DimNamer
) -> dict[str, Words]:
    """Words for gradients, which are shaped as what they are the gradient of, and for what is computed again."""
    words: dict[str, Words] = {}
    for node in graph.graph.nodes:
        origin = backward.provenance(node.name)
        source = forward.nodes.get(origin.gradient_of or node.name)
        value = node.meta.get("val")
        if node.op != "call_function" or source is None or not isinstance(value, torch.Tensor):
            continue
        if origin.gradient_of or (not origin.differentiates and is_again(node, source)):
            words[node.name] = _flattened(source, value, dims)
    return words


def _flattened(node: fx.Node, value: torch.Tensor, dims: DimNamer) -> Words:
    """The words of a node's dimensions for a value of the same elements, of which several may be one."""
    shape = node.meta["val"].shape
    words = dims.of(node.name, len(shape))
    if shape == value.shape:
        return words
    made = reshaped(tuple(map(as_size, shape)), words, tuple(map(as_size, value.shape)))
    # What each factor is here is no matter: one function is written for layers of several sizes.
    return tuple(ProductWord(word.of) if isinstance(word, ProductWord) else word for word in made)


def name_backward(training: TrainingPlan, ledger: Ledger | None, forward: NamedPlan) -> NamedPlan:
    """The backward pass, named after the forward: a kernel that both launch keeps its name."""
    plan, words, dims = _with_words(training, forward)
    known = Ledger({**(ledger.kernels if ledger is not None else {}), **forward.names.kernels})
    names = name_unit(plan, known, words=words, dims=dims, elsewhere=launched_in(forward))
    return NamedPlan(plan, names, words, dims)


def with_kernels(forward: NamedPlan, ledger: Ledger | None) -> NamedPlan:
    """A forward pass with words for its kernels: after the variables that it has with all that its layers save."""
    facts = facts_of(forward.plan.options.target)
    return _with_kernels(forward, name_kernels(forward.plan.kernels, callers_of(forward), facts, ledger))


def name_backward_steps(training: TrainingPlan, forward: NamedPlan) -> NamedPlan:
    """The steps of the backward pass and the variables around layers, before anything is named after what is saved."""
    plan, words, dims = _with_words(training, forward)
    return NamedPlan(plan, name_steps(plan, words), words, dims)


def _with_words(training: TrainingPlan, forward: NamedPlan) -> tuple[UnitPlan, BufferNamer, DimNamer]:
    """The plan of the backward pass, with words after those of the forward pass."""
    graphs, lowered = training.graphs, training.backward.program.graph
    words = BufferNamer(
        lowered,
        training.backward.program.buffers,
        words_of_forward_pass(training, forward),
        forward.words.renamed,
        weights_of(training.backward),
    )
    dims = _backward_dims(graphs, forward.words, words, training.backward.program)
    dims.learn_copies(externs(training.backward))
    return training.backward, words, dims


def with_shared_kernels(
    forward: NamedPlan, backward: NamedPlan, ledger: Ledger | None
) -> tuple[NamedPlan, NamedPlan]:
    """Both passes, the kernels that both launch in words that the calls of both share."""
    there, here = map(callers_of, (forward, backward))
    both = there.keys() & here.keys()
    if not both:
        return forward, backward
    kernels = dict(forward.plan.kernels)
    for key in both:
        there[key] = Callers((*there[key].every, *here[key].every))
        kernels[key] |= backward.plan.kernels[key]
    kept = ledger.kernels if ledger is not None else {}
    of_forward = name_kernels(kernels, there, facts_of(forward.plan.options.target), Ledger(kept))
    of_backward = name_kernels(
        backward.plan.kernels,
        here,
        facts_of(backward.plan.options.target),
        Ledger({**kept, **of_forward}),
        {key: (kernels[key], there[key]) for key in of_forward},
    )
    return _with_kernels(forward, of_forward), _with_kernels(backward, of_backward)


def launched_in(named: NamedPlan) -> dict[str, tuple[KernelPlan, Callers]]:
    """The kernels of a pass that has its names, and their calls."""
    callers = callers_of(named)
    return {key: (named.plan.kernels[key], callers[key]) for key in named.names.kernels if key in callers}


def callers_of(named: NamedPlan) -> dict[str, Callers]:
    """By kernel: its calls in a pass that has its names."""
    variables = FunctionVariables.of(named.names.steps, named.words, named.names.buffers)
    return callers_in(named.plan, named.words, named.dims, variables)


def _with_kernels(named: NamedPlan, kernels: Mapping[str, KernelNames]) -> NamedPlan:
    return dataclasses.replace(named, names=dataclasses.replace(named.names, kernels=kernels))


def find_saved_layers(
    training: TrainingGraphs, forward: NamedPlan, backward: NamedPlan
) -> tuple[SavedLayers, ...]:
    """A record for the layers of a list that both passes go through in one loop: all of them, or all of one kind."""
    if not training.forward.is_module:
        return ()
    back, there = loops_of(backward.names.steps), loops_of(forward.names.steps)
    records: list[SavedLayers] = []
    for loop in back:
        twins = _over_any(there, loop.owner, loop.positions)
        if len(twins) != 1 or len(_over_any(back, loop.owner, loop.positions)) != 1:
            continue
        record = _record(training, forward, backward, loop, twins[0])
        of_both = (*loop.positions, *twins[0].positions)
        is_alone = all(len(_over_any(loops, loop.owner, of_both)) == 1 for loops in (back, there))
        if record is not None and (is_alone or not record.others):
            records.append(_with_free_name(record, records))
    outside = _read_outside(backward.names.steps, records)
    sources = {entry.node: entry.source for entry in training.inputs}
    n_users = len(training.forward.outputs) - training.forward.n_saved
    made = {name for twin in there for names in twin.repeat.outputs for name in names}
    return tuple(
        dataclasses.replace(
            record,
            places=frozenset(
                place
                for place in (
                    *_places_of(record, sources, outside),
                    *_places_of_others(record, forward.plan, made),
                )
                if place >= n_users  # the caller has the first ones, saved or not
            ),
        )
        for record in records
    )


def _over_any(loops: Sequence[Loop], owner: str, positions: Iterable[int]) -> list[Loop]:
    """The loops over some of these layers of a list."""
    return [loop for loop in loops if loop.owner == owner and not {*positions}.isdisjoint(loop.positions)]


def _places_of(
    record: SavedLayers, sources: Mapping[str, int | str], outside: Collection[str]
) -> Iterable[int]:
    """The forward's results that only records need."""
    nodes = [node for own in record.nodes.values() for node in own if node not in outside]
    return (source for source in map(sources.__getitem__, nodes) if isinstance(source, int))


def _places_of_others(record: SavedLayers, plan: UnitPlan, made: Collection[str]) -> Iterable[int]:
    """The forward's results that the backward function reads by itself and that are in records of further layers."""
    saved = {record.buffers[position][place] for position, _ in record.others for place in record.made}
    return (
        place
        for place, view in enumerate(plan.results)
        if isinstance(view, View) and view.buffer in saved and view.buffer in made
    )


def _with_free_name(record: SavedLayers, others: Sequence[SavedLayers]) -> SavedLayers:
    """The record by a name that no other with other fields has."""
    fields = {other.class_name: other.fields for other in others}
    name = record.class_name
    names = chain([name], (f"{word}{name}" for word in ordinal_classes()))
    free = next(one for one in names if fields.get(one, record.fields) == record.fields)
    return dataclasses.replace(record, class_name=free)


def _record(
    training: TrainingGraphs, forward: NamedPlan, backward: NamedPlan, loop: Loop, twin: Loop
) -> SavedLayers | None:
    entries = {entry.node: entry for entry in training.inputs}
    sources: dict[int, tuple[str, ...]] = {}
    for position, own in zip(loop.positions, loop.own, strict=True):
        buffers = [_forward_buffer(entries[node], forward.plan) for node in own]
        sources[position] = tuple(buffer for buffer in buffers if buffer is not None)
        if None in buffers:
            return None
    if not loop.own[0]:
        return None
    twin = given_what_they_save(twin, sources, there_before(twin, forward.plan))
    made = made_alike(twin, sources)
    held = held_alike(loop, training.forward, sources)
    places = range(len(loop.own[0]))
    if any(made[place] is None and not held[place] for place in places):
        return None
    others = of_other_layers(twin, training.forward, sources, held)
    if others is None or (others and not _are_of_one_loop(loop, twin)):
        return None
    parameters = {entry.node for entry in training.forward.inputs if entry.kind is InputKind.PARAMETER}
    words, paths = name_block(loop, backward.words), backward.plan.program.graph.paths
    # What the layer made, in order, then its weights.
    order = sorted(places, key=lambda place: (held[place], (made[place] or 0) if not held[place] else 0))
    nodes = {
        position: tuple(own[place] for place in order)
        for position, own in zip(loop.positions, loop.own, strict=True)
    }
    return SavedLayers(
        loop.owner,
        f"saved_{list_names(backward.names.steps)[loop.owner, loop.positions]}",
        f"{twin.class_name}Saved",
        tuple(words[loop.own[0][place]] for place in order),
        tuple(_inside_layer(paths.get(loop.own[0][place], "")) for place in order),
        {position: tuple(own[place] for place in order) for position, own in (sources | others).items()},
        nodes,
        tuple(held[place] and sources[loop.positions[0]][place] in parameters for place in order),
        frozenset(),
    )


def _are_of_one_loop(loop: Loop, twin: Loop) -> bool:
    """Whether the layers of a backward pass's loop run one after the other inside one loop of the forward pass."""
    places = [twin.positions.index(position) for position in loop.positions if position in twin.positions]
    in_turn = list(range(len(places) - 1, -1, -1))
    is_plain = not (twin.is_in_turn or twin.is_apart)
    return (
        is_plain and len(places) == len(loop.positions) and [one - min(places) for one in places] == in_turn
    )


def with_forward_names(records: Sequence[SavedLayers], forward: NamedPlan) -> tuple[SavedLayers, ...]:
    """The records, what layers made by the variables that it has where the forward's function of a layer ends."""
    variables: dict[str, str] = {}
    for loop in loops_of(forward.names.steps):
        if loop.record is not None:
            variables |= name_block(loop, forward.words)
    named_records = [_with_fields(record, variables) for record in records]
    fields: dict[str, set[tuple[str, ...]]] = {}
    for one in named_records:
        fields.setdefault(one.class_name, set()).add(one.fields)
    return tuple(
        new if len(fields[new.class_name]) == 1 else old
        for new, old in zip(named_records, records, strict=True)
    )


def _with_fields(record: SavedLayers, variables: Mapping[str, str]) -> SavedLayers:
    for buffers in record.buffers.values():
        made = [variables.get(name) for name, path in zip(buffers, record.paths, strict=True) if not path]
        held = [word for word, path in zip(record.fields, record.paths, strict=True) if path]
        if None not in made and len({*made, *held}) == len(buffers):
            words = iter(made)
            fields = (
                word if path else str(next(words))
                for word, path in zip(record.fields, record.paths, strict=True)
            )
            return dataclasses.replace(record, fields=tuple(fields))
    return record


def _inside_layer(path: str) -> str:
    """``mlp.c_fc.weight`` of ``blocks.3.mlp.c_fc.weight``."""
    parts = path.split(".")
    layers = [place for place in range(1, len(parts) - 1) if parts[place].isdecimal()]
    return ".".join(parts[layers[-1] + 1 :]) if layers else path


def _forward_buffer(entry: BackwardInput, plan: UnitPlan) -> str | None:
    """The forward's buffer that feeds a placeholder of the backward pass, if it does as a whole."""
    if isinstance(entry.source, str):
        return entry.source
    result = plan.results[entry.source]
    return result.buffer if isinstance(result, View) and not result.calls else None


def _read_outside(steps: Sequence[ModelStep], records: Sequence[SavedLayers]) -> set[str]:
    """What a function reads by its own name: where no loop is, in loops without a record, and what loops begin with."""
    names: set[str] = set()
    for step in steps:
        if isinstance(step, Loop | LayerCall):
            loop = step.loop if isinstance(step, LayerCall) else step
            names |= {*step.repeat.inputs[0], *loop.shared}
            names |= set() if record_of(records, loop) else set(chain.from_iterable(loop.own))
        else:
            names |= {name for plain in plain_steps(step) for name in buffers_read(plain)}
    return names
