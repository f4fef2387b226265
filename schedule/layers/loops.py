"""Repeated blocks as loops: which repeats become one function called once a layer, and what it is given.

A repeat is a loop if its runs are alike: every buffer that a run reads from outside is a weight under the run's own
path, or the same for all runs, or made by the run before. Any other repeat is printed run by run. Which layers belong
to a repeat although they do a few steps otherwise, schedule/layers/divergent_layers.py says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from longhand.lower.ir import Buffer, View
from longhand.schedule.layers.divergent_layers import UnevenRepeat, join_divergent_layers, n_unlike
from longhand.schedule.layers.divergent_runs import Alternative, hold_the_same
from longhand.schedule.layers.following import following_of, own_and_preceding
from longhand.schedule.layers.kind_names import with_kinds_told
from longhand.schedule.layers.listed_inputs import listed_inputs
from longhand.schedule.layers.loop_inputs import (
    carried_places,
    class_of,
    distinct_inputs,
    gradients_apart,
    gradients_last,
    hold_modules,
    in_lists,
    joined,
    own_weights,
    previous_weights,
)
from longhand.schedule.layers.model_steps import (
    Choice,
    FirstCall,
    LayerCall,
    Loop,
    ModelStep,
    layers_called,
    loops_of,
)
from longhand.schedule.layers.peeled_first import (
    find_first_run,
    matching_buffers,
    read_from_outside,
)
from longhand.schedule.layers.saved_alike import given_what_they_save
from longhand.schedule.layers.saved_layers import SavedLayers, saved_before
from longhand.schedule.layers.shared_tails import with_shared_tails, without_tails_called_inside
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.plan import Release, Repeat, UnitPlan, UnitStep, buffers_made, buffers_read


def arrange(plan: UnitPlan, words: BufferNamer, records: Sequence[SavedLayers] = ()) -> tuple[ModelStep, ...]:
    """The plan's steps with repeats as loops, or unrolled where they are none.

    Args:
        plan: The unit's.
        words: The captured graph's.
        records: What layers save for their backward pass as a record.
    """
    arranged = _arranged(plan, words, records, frozenset())
    if not plan.program.graph.paths:  # a backward pass has functions for its layers, no modules
        inner = _lists_in_layers(loops_of(arranged))
        arranged = _arranged(plan, words, records, inner) if inner else arranged
    return with_kinds_told(arranged, plan.program.graph, words)


def _lists_in_layers(loops: Sequence[Loop]) -> frozenset[str]:
    """The lists whose layers cannot have a class: a layer of another list holds them, and that one's class makes it.

    All layers of that other list have one class, which makes the same modules for each; only one of them would call
    its own list's layers by methods.
    """
    layers = [f"{loop.owner}.{position}." for loop in loops for position in layers_called(loop)]
    return frozenset(loop.owner for loop in loops if loop.owner.startswith(tuple(layers)))


def _arranged(
    plan: UnitPlan, words: BufferNamer, records: Sequence[SavedLayers], unrolled: frozenset[str]
) -> tuple[ModelStep, ...]:
    """What `arrange` returns, without loops over the lists that are to be unrolled."""
    arranged: list[ModelStep] = []
    repeats = any(isinstance(step, Repeat) for step in plan.steps)
    steps = join_divergent_layers(plan) if repeats else tuple(plan.steps)
    apart = _layers_apart(plan, steps, words, records)
    for place, step in enumerate(steps):
        if not isinstance(step, Repeat):
            arranged.append(step)
            continue
        if step.family is not None:
            loop, number = apart[place]
            is_called = loop is not None and loop.owner not in unrolled
            arranged += [LayerCall(loop, number)] if loop is not None and is_called else step.runs[0]
            continue
        if step.kinds:
            arranged = _with_layers_in_turn(
                plan, arranged, step, steps[place + 1 :], words, records, unrolled
            )
            continue
        n_first = n_unlike(step)
        if isinstance(step, UnevenRepeat) and step.pattern < n_first:
            n_first = len(step.runs)
        arranged += [inner for run in step.runs[:n_first] for inner in run]
        rest = distinct_inputs(step, n_first)
        loop = _as_loop(plan, rest, steps[place + 1 :], words) if len(rest.runs) > 1 else None
        if loop is not None and loop.owner not in unrolled:
            record = record_of(records, loop)
            if record is not None:
                loop = _with_record(plan, loop, record, _read(steps[place + 1 :]))
            call = None if loop.own else _as_first_call(plan, arranged, loop, steps[place + 1 :])
            if call is not None:
                n_before, first, loop = call
                arranged = [*arranged[:n_before], first, *_releases_around(first, arranged[n_before:])]
            arranged.append(loop)
        else:
            arranged += [inner for run in rest.runs for inner in run]
    return tuple(arranged)


def _layers_apart(
    plan: UnitPlan, steps: Sequence[UnitStep], words: BufferNamer, records: Sequence[SavedLayers]
) -> dict[int, tuple[Loop | None, int]]:
    """By the place of each layer that has other steps around it: the function that it is, and which of its calls."""
    calls_apart: dict[int, tuple[Loop | None, int]] = {}
    repeats = {place: step for place, step in enumerate(steps) if isinstance(step, Repeat)}
    for family in dict.fromkeys(step.family for step in repeats.values() if step.family is not None):
        places = [place for place, step in repeats.items() if step.family == family]
        repeat = gradients_last(plan, joined([repeats[place] for place in places]))
        loop = _as_loop(plan, repeat, (), words, is_apart=True)
        if loop is not None and loop.own:
            loop = dataclasses.replace(loop, collected=gradients_apart(plan, repeat, steps, words.weights))
        record = record_of(records, loop) if loop is not None else None
        if loop is not None and record is not None:
            loop = _with_record(plan, loop, record, _between(steps, places))
        calls_apart |= {place: (loop, number) for number, place in enumerate(places)}
    return calls_apart


def record_of(records: Sequence[SavedLayers], loop: Loop) -> SavedLayers | None:
    """What a loop's layers save, if that is a record."""
    positions = set(loop.positions)
    return next((one for one in records if one.owner == loop.owner and positions <= one.buffers.keys()), None)


def _with_layers_in_turn(
    plan: UnitPlan,
    before: Sequence[ModelStep],
    repeat: Repeat,
    later: Sequence[UnitStep],
    words: BufferNamer,
    records: Sequence[SavedLayers],
    unrolled: frozenset[str],
) -> list[ModelStep]:
    """What comes before layers of several kinds, and these: calls of a function for each kind."""
    loops: dict[int, Loop] = {}
    for kind in dict.fromkeys(repeat.kinds):
        loop = _as_loop(plan, repeat.of_kind(kind), later, words, _handed_on(repeat, kind))
        if loop is None or loop.owner in unrolled:
            return [*before, *(inner for run in repeat.runs for inner in run)]
        record = record_of(records, loop)
        loops[kind] = loop if record is None else _with_record(plan, loop, record, _read(later))
    outside = frozenset(entry.node for entry in plan.program.graph.inputs)
    loops = with_shared_tails(loops, outside, plan.buffers)
    steps = list(before)
    position = min(loops[repeat.kinds[0]].positions) - 1
    calls = [
        (kind, call)
        for kind, loop in loops.items()
        if not loop.own and (call := _as_first_call(plan, steps, loop, (repeat, *later), position))
    ]
    if calls:  # of two kinds, the one that it has most in common with
        kind, (n_before, first, loops[kind]) = min(calls, key=lambda one: one[1][0])
        steps = [*steps[:n_before], first, *_releases_around(first, steps[n_before:])]
        loops = without_tails_called_inside(loops)
    numbers = [repeat.kinds[:run].count(kind) for run, kind in enumerate(repeat.kinds)]
    return [*steps, *map(LayerCall, (loops[kind] for kind in repeat.kinds), numbers)]


def _handed_on(repeat: Repeat, kind: int) -> tuple[int, ...]:
    """The places among the outputs of a kind of layer that the layers after it take."""
    return tuple(
        {
            outputs.index(name): None
            for other, outputs, inputs in zip(repeat.kinds, repeat.outputs, repeat.inputs[1:], strict=False)
            for name in inputs
            if other == kind and name in outputs
        }
    )


def _as_first_call(
    plan: UnitPlan,
    before: Sequence[ModelStep],
    loop: Loop,
    later: Sequence[UnitStep],
    position: int | None = None,
) -> tuple[int, FirstCall, Loop] | None:
    """(steps left as they are, the call, the loop told about it) if the run before the loop ends as the loop's do."""
    position = loop.positions[0] - 1 if position is None else position
    called = (Loop, FirstCall, LayerCall)
    n_fixed = 1 + max((n for n, step in enumerate(before) if isinstance(step, called)), default=-1)
    plain = [step for step in before[n_fixed:] if not isinstance(step, (*called, Choice))]
    run = loop.run
    inputs = plan.program.graph.inputs
    twins = {entry.target: entry.node for entry in inputs}
    twins |= {one.path: name for name, one in listed_inputs(plan.program.graph).items()}
    stands_for = {entry.node: entry.node for entry in inputs} | {
        name: twins.get(f"{loop.owner}.{position}.{path}", "") for name, path in loop.own_inputs.items()
    }
    is_alone = position < 0 or bool(loop.repeat.numbers)
    first = find_first_run(plain, run, stands_for, plan.buffers) if not is_alone else None
    if first is None:
        return None
    path = f"{loop.owner}.{position}"
    if not hold_the_same(plan.program.graph, loop.repeat.paths[loop.pattern], path):
        return None
    if any(one.start < first.n_head < one.stop for one in loop.alternatives):
        return None
    order = dict.fromkeys((*loop.inputs, *(b for step in run[: first.n_head] for b in buffers_made(step))))
    twins_of = {name: twins.get(f"{path}.{below}", "") for name, below in loop.own_inputs.items()}
    only_saved = saved_before(loop.record, loop.saved, position, {**twins_of, **first.buffers}, order)
    if only_saved is None:
        return None
    made = {name for step in first.rest for name in buffers_made(step)}
    shared = {name for step in run[first.n_head :] for name in buffers_made(step)}
    # What the layer before made before the shared steps is at hand where it calls them.
    rest_outputs = tuple(name for name in loop.outputs if name in shared)
    outputs = tuple(first.buffers.get(name, "") for name in rest_outputs)
    read = results_apart(plan, loop.record).union(*(buffers_read(step) for step in (loop.repeat, *later)))
    if (made & read) - set(outputs) or not set(outputs) <= made:
        return None
    taken = read_from_outside(run[first.n_head :], frozenset(loop.own_weights))
    rest_inputs = (
        *(b for b in order if b in taken or b in only_saved),
        *(b for b in taken if b not in order),
    )
    arguments = tuple(only_saved.get(name) or first.buffers[name] for name in rest_inputs)
    repeat = Repeat((first.rest,), (path,), (arguments,), (outputs,))
    told = dataclasses.replace(
        loop, n_head=first.n_head, rest_inputs=rest_inputs, rest_outputs=rest_outputs, first=position
    )
    return n_fixed + first.n_before, FirstCall(repeat, position), told


def does_the_same(loop: Loop, other: Loop, buffers: Mapping[str, Buffer]) -> bool:
    """Whether two loops over one list call the same function: their runs are equal up to what buffers are called."""
    paths = {path: name for name, path in other.own_inputs.items()}
    stands_for = {name: paths.get(path, "") for name, path in loop.own_inputs.items()}
    matching = matching_buffers(other.run, loop.run, stands_for, buffers)
    if loop.alternatives or other.alternatives or loop.previous or other.previous:
        return False
    if loop.following or other.following:
        return False
    if loop.repeat.numbers or other.repeat.numbers:
        return False
    if matching is None or (loop.owner, loop.class_name) != (other.owner, other.class_name):
        return False
    given = [(*one.inputs, *one.shared) for one in (loop, other)]
    outputs = [one.outputs for one in (loop, other)]
    return (
        [matching.get(name) for name in given[0]] == list(given[1])
        and [matching.get(name) for name in outputs[0]] == list(outputs[1])
        and loop.shared == other.shared
        and "" not in stands_for.values()
        and len(loop.own_inputs) == len(other.own_inputs)
    )


def results_apart(plan: UnitPlan, record: SavedLayers | None) -> set[str]:
    """The buffers that the plan returns, without those that only a record of layers needs."""
    in_record = record.places if record is not None else frozenset()
    return {
        view.buffer
        for place, view in enumerate(plan.results)
        if isinstance(view, View) and place not in in_record
    }


def _read(steps: Iterable[UnitStep]) -> set[str]:
    return {name for step in steps for name in buffers_read(step)}


def _between(steps: Sequence[UnitStep], places: Sequence[int]) -> set[str]:
    """What is read after the first of some layers, but not what each makes and reads itself."""
    layers = [step for place in places[1:] if isinstance(step := steps[place], Repeat)]
    others = (step for place, step in enumerate(steps) if place > places[0] and place not in places)
    return _read(others).union(*(step.inputs[0] for step in layers))


def _with_record(plan: UnitPlan, loop: Loop, record: SavedLayers, later: Collection[str]) -> Loop:
    """The loop whose runs hand on a record, and by themselves only what it does not hold for them alone."""
    loop = given_what_they_save(loop, record.buffers)
    read_later = results_apart(plan, record).union(later)
    runs = loop.repeat.outputs
    collected = [p for p in range(len(runs[0])) if any(run[p] in read_later for run in runs[:-1])]
    in_lists = [] if loop.is_in_turn else collected
    kept = [
        place
        for place in range(len(runs[0]))
        if place in loop.carried or place in collected or runs[-1][place] in read_later
    ]
    outputs = tuple(tuple(run[place] for place in kept) for run in runs)
    return dataclasses.replace(
        loop,
        repeat=dataclasses.replace(loop.repeat, outputs=outputs),
        carried=tuple(kept.index(place) for place in loop.carried),
        collected=tuple(kept.index(place) for place in in_lists),
        record=record,
    )


def _releases_around(first: FirstCall, steps: Sequence[ModelStep]) -> list[Release]:
    """What the steps that became a call drop of what was made before it."""
    dropped = [name for step in steps if isinstance(step, Release) for name in step.buffers]
    outside = tuple(name for name in dropped if name in first.repeat.inputs[0])
    return [Release(outside)] if outside else []


def _as_loop(
    plan: UnitPlan,
    repeat: Repeat,
    later: Sequence[UnitStep],
    words: BufferNamer,
    handed_on: tuple[int, ...] | None = None,
    is_apart: bool = False,
) -> Loop | None:
    """The runs as one function; None if they are none.

    Layers in turn are given what they hand on to each other, whichever kind they are: each is called by itself. So are
    layers that have other steps between them: all that these hand on has a variable.
    """
    is_in_turn = handed_on is not None or is_apart
    graph = plan.program.graph
    owners = {path.rpartition(".")[0] for path in repeat.paths}
    lasts = [path.rpartition(".")[2] for path in repeat.paths]
    is_backward = bool(graph.paths)
    # Of a model that is itself a list the layers are not an attribute.
    is_list = len(owners) == 1 and owners != {""} and all(last.isdigit() for last in lasts)
    if not is_list or not (graph.is_module or is_backward):
        return None
    own, preceding = (repeat.own if is_backward else ()), None
    pattern, alternatives = 0, tuple[Alternative, ...]()
    if isinstance(repeat, UnevenRepeat):
        pattern, alternatives = repeat.pattern, repeat.alternatives
    elif is_backward and not is_in_turn:
        own, preceding = own_and_preceding(graph, repeat)
    if is_apart and not is_backward:
        pattern = len(repeat.runs) - 1  # the first may be given what is called after what comes before all
    if any(repeat.following):
        pattern = 1  # the first one is given what no layer made
    odd = {run for one in alternatives for run in one.runs}
    if not is_backward and not all(
        hold_the_same(graph, repeat.paths[pattern], path) for path in repeat.paths
    ):
        return None
    carried = () if is_apart else carried_places(repeat) if handed_on is None else handed_on
    if carried is None:
        return None
    reads = [dict.fromkeys(name for step in run for name in buffers_read(step)) for run in repeat.runs]
    before = [frozenset(names) for names in repeat.previous] or [frozenset[str]()] * len(repeat.runs)
    behind = [frozenset(names) for names in repeat.following] or [frozenset[str]()] * len(repeat.runs)
    of_itself = [
        [name for name in names if name not in one and name not in other]
        for names, one, other in zip(reads, before, behind, strict=True)
    ]
    weights = own_weights(graph, repeat.paths, of_itself, pattern, odd)
    previous = {} if is_backward else previous_weights(graph, repeat, pattern)
    is_lone = is_apart and not is_backward and not hold_modules(weights or {})
    if weights is None or previous is None or is_lone:
        return None
    made = {name for step in repeat.runs[pattern] for name in buffers_made(step)}
    alone = repeat.own[0] if is_backward and repeat.own else ()
    given = {*weights, *before[pattern], *behind[pattern], *repeat.inputs[pattern], *alone}
    shared = tuple(name for name in reads[pattern] if name not in made and name not in given)
    if not all(set(shared) <= names.keys() for run, names in enumerate(reads) if run not in odd):
        return None
    lists = ((), ()) if is_apart else in_lists(plan, repeat, later, carried, is_in_turn)
    if lists is None:
        return None
    collected, gathered = lists
    lists_given = listed_inputs(graph)
    return Loop(
        repeat,
        owners.pop(),
        tuple(int(last) for last in lasts),
        class_of(graph, repeat.paths[0], words),
        carried,
        shared,
        {name: below for name, below in weights.items() if name not in lists_given},
        collected,
        own=own,
        pattern=pattern,
        alternatives=alternatives,
        previous=previous,
        following=following_of(graph, repeat, pattern),
        preceding=preceding,
        gathered=gathered,
        is_in_turn=is_in_turn,
        is_apart=is_apart,
        listed={name: lists_given[name] for name in weights if name in lists_given},
    )
