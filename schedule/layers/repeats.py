"""Equal layers, found after everything is planned: runs of steps that are one another up to the buffers named.

Steps become tokens (what they do, without the names of buffers). A stretch that equals itself moved by a period is a
repeat if the buffers correspond as well: made inside by the same step, the same weight of the next module, saved by
the forward pass for the run, handed on from run to run, or one and the same. Where a run begins is free (a residual
sum often is fused with the norm of the next layer): the beginning is chosen so that each run uses the weights of one
module. Where a weight of a layer's end is fused with one of the next layer's beginning (a layer scale and a norm), no
such beginning exists: then each run uses weights of the module before its own, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from longhand.lower.ir import Buffer, Extern, Program, View
from longhand.schedule.layers.divergent_runs import hold_the_same
from longhand.schedule.layers.following import are_of_next_ones, leaves_some_out
from longhand.schedule.layers.kinds import Stretch, layers_in_turn
from longhand.schedule.layers.layers_apart import fold_layers_apart
from longhand.schedule.layers.listed_inputs import listed_inputs
from longhand.schedule.layers.outside import Outside, made_inside, positions_in_lists, references
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Repeat, Reuse, UnitStep

FEWEST_RUNS = 3
FEWEST_RUNS_OF_LONG = 2
LONG = 4  # launches and library calls
SHORTEST = 2


def fold_repeats(steps: Sequence[PlanStep], program: Program, kept: frozenset[str]) -> list[UnitStep]:
    """The steps with stretches of equal runs as `Repeat`.

    Args:
        steps: In order, with allocations and reuses.
        program: For buffers and the paths of weights.
        kept: Buffers that the caller sees.
    """
    graph = program.graph
    weights = {entry.node: graph.paths.get(entry.node, entry.target) for entry in graph.inputs}
    weights |= {name: one.path for name, one in listed_inputs(graph).items()}
    read = dict.fromkeys(weights[name] for step in steps for name in references(step) if name in weights)
    outside = Outside(
        {node: path for node, path in weights.items() if "." in path},
        frozenset(graph.given),
        positions_in_lists(read),
    )
    folded = [step for part in _fold(list(steps), program.buffers, outside, kept) for step in part]

    def numbers(plain: Sequence[PlanStep]) -> list[int]:
        return _token_numbers(plain, program.buffers)

    def is_one_class(path: str, other: str) -> bool:
        return bool(graph.paths) or (graph.is_module and hold_the_same(graph, path, other))

    return fold_layers_apart(folded, numbers, outside, kept, is_one_class)


def _fold(
    steps: list[PlanStep], buffers: Mapping[str, Buffer], outside: Outside, kept: frozenset[str]
) -> list[list[UnitStep]]:
    numbers = _token_numbers(steps, buffers)
    named = [references(step) for step in steps]
    for stretch in _stretches(numbers):
        best = _best_repeat(steps, named, stretch, outside, kept) or layers_in_turn(
            steps,
            named,
            numbers,
            Stretch(stretch.start, stretch.start + stretch.length, stretch.period),
            outside,
            kept,
        )
        if best is not None:
            start, end, repeat = best
            reads_after = frozenset(name for names in named[start:] for name in names)
            before = _fold(steps[:start], buffers, outside, kept | reads_after)
            after = _fold(steps[end:], buffers, outside, kept)
            return [*before, [repeat], *after]
    return [list(steps)]


@dataclasses.dataclass(frozen=True)
class _Stretch:
    """tokens[start : start + length] repeats itself with a period."""

    start: int
    length: int
    period: int


def _stretches(numbers: Sequence[int]) -> list[_Stretch]:
    """Maximal stretches of at least two periods, those that save most first."""
    last: dict[int, int] = {}
    distances: dict[int, None] = {}
    for place, number in enumerate(numbers):
        if number in last:
            distances[place - last[number]] = None
        last[number] = place
    stretches: list[_Stretch] = []
    for period in sorted(distances):
        run = 0
        for place in range(len(numbers) - period + 1):
            is_equal = place + period < len(numbers) and numbers[place] == numbers[place + period]
            if is_equal:
                run += 1
                continue
            if run >= period:
                stretches.append(_Stretch(place - run, run + period, period))
            run = 0
    return sorted(stretches, key=lambda s: (-(s.length // s.period * s.period), s.period, s.start))


def _best_repeat(
    steps: Sequence[PlanStep],
    named: Sequence[tuple[str, ...]],
    stretch: _Stretch,
    outside: Outside,
    kept: frozenset[str],
) -> tuple[int, int, Repeat] | None:
    """(start, end, repeat): the beginning with the most runs that hand on the least."""
    best: tuple[tuple[int, ...], tuple[int, int, Repeat]] | None = None
    period = stretch.period
    for phase in range(stretch.start, stretch.start + min(period + 1, stretch.length - 2 * period + 1)):
        n_runs = (stretch.start + stretch.length - phase) // period
        first = 0
        # Tokens may agree where buffers do not: each segment goes as far as they do.
        while first < n_runs:
            begin = phase + first * period
            repeat = _longest_repeat(steps, named, begin, period, n_runs - first, outside, kept)
            first += 1 if repeat is None else len(repeat.runs)
            if repeat is not None and not leaves_some_out(repeat, outside):
                count = len(repeat.runs)
                n_previous = _n_elsewhere(repeat, outside)
                n_handed = len(repeat.inputs[0]) + len(repeat.outputs[0])
                # One run less is no reason to reach into another module. The first layer may stand before the loop and
                # call what it has in common with it; the last one would be written out, as one is of a backward pass.
                cost = (
                    (0 if outside.given else min(n_previous, 1)) - count,
                    _leaves_last_out(repeat, outside),
                    n_previous,
                    n_handed,
                    begin,
                )
                if best is None or cost < best[0]:
                    best = (cost, (begin, begin + count * period, repeat))
    return None if best is None else best[1]


def _n_elsewhere(repeat: Repeat, outside: Outside) -> int:
    """How many weights each run is given that, of some run, are not its module's."""
    paths = [f"{path}." for path in repeat.paths]
    return sum(
        any(
            name in outside.weights and not outside.weights[name].startswith(path)
            for name, path in zip(names, paths, strict=True)
        )
        for names in zip(*repeat.own, strict=True)
    )


def _leaves_last_out(repeat: Repeat, outside: Outside) -> bool:
    """Whether just the last layer of a forward pass's list is no run."""
    owner, _, last = repeat.paths[-1].rpartition(".")
    positions = outside.positions.get(owner, ())
    is_all_but_one = len(repeat.runs) == len(positions) - 1
    return not outside.given and is_all_but_one and last.isdigit() and int(last) != positions[-1]


def _longest_repeat(
    steps: Sequence[PlanStep],
    named: Sequence[tuple[str, ...]],
    start: int,
    period: int,
    most: int,
    outside: Outside,
    kept: frozenset[str],
) -> Repeat | None:
    """The most runs from `start` on that correspond, if they are worth a loop. Fewer runs of a repeat are one, too."""
    run = steps[start : start + period]
    longest: Repeat | None = None
    # Two runs tell most wrong beginnings at once; right ones mostly hold to the end.
    low, high, tries = 2, most, [most, 2]
    while low <= high and _is_worth(run, high):
        count = tries.pop() if tries else (low + high + 1) // 2
        repeat = _as_repeat(steps, named, start, period, count, outside, kept)
        if repeat is None:
            high = count - 1
        else:
            longest, low = repeat, count + 1
    return longest if longest is not None and _is_worth(run, len(longest.runs)) else None


def _is_worth(run: Sequence[PlanStep], count: int) -> bool:
    length = sum(isinstance(step, Launch | Extern) for step in run)
    return length >= SHORTEST and (count >= FEWEST_RUNS or (count >= FEWEST_RUNS_OF_LONG and length >= LONG))


def _as_repeat(
    steps: Sequence[PlanStep],
    named: Sequence[tuple[str, ...]],
    start: int,
    period: int,
    count: int,
    outside: Outside,
    kept: frozenset[str],
) -> Repeat | None:
    """The runs as a Repeat if their buffers correspond."""
    runs = [tuple(steps[start + n * period : start + (n + 1) * period]) for n in range(count)]
    made = [made_inside(run) for run in runs]
    modules: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    differing: dict[tuple[str, ...], None] = {}
    own: dict[tuple[str, ...], None] = {}
    following: dict[tuple[str, ...], None] = {}
    # What a run takes is in the order in which kernels and library calls take it, not in that of what gives way first.
    for place in sorted(range(period), key=lambda place: isinstance(runs[0][place], Reuse)):
        for names in zip(*named[start + place : start + count * period : period], strict=True):
            numbers = {own.get(name, -1) for own, name in zip(made, names, strict=True)}
            if len(numbers) != 1:
                return None
            if numbers != {-1} or len(set(names)) == 1:
                continue
            if all(name in outside.weights for name in names):
                prefixes = _module_paths([outside.weights[name] for name in names])
                if prefixes is None and outside.given and len(set(names)) == count:
                    own[names] = None  # of the first layer that of what stands before all of them
                    continue
                if prefixes is None:
                    following[names] = None
                    continue
                modules.setdefault(tuple(prefixes), []).append(names)
                if len(modules) > 2:
                    return None
                own[names] = None
            elif all(name in outside.given for name in names) and len(set(names)) == count:
                own[names] = None
            elif _is_handed_on(names, made):
                differing[names] = None
            else:
                return None
    linked = _one_after_the_other(modules, outside)
    if linked is None and not outside.given and not following:
        linked, following = _one_before_the_other(modules, outside)
        if linked is not None:
            own = {names: None for names in own if names not in following}
    if linked is None or len(set(linked[0])) != count:
        return None
    paths, previous = linked
    if following and not are_of_next_ones(tuple(following), paths, outside):
        return None
    inputs = list(differing)
    outputs = _outputs(named, start, period, made, inputs, kept)
    return Repeat(
        tuple(runs),
        paths,
        tuple(tuple(names[run] for names in inputs) for run in range(count)),
        outputs,
        tuple(tuple(names[run] for names in own) for run in range(count)),
        tuple(tuple(names[run] for names in dict.fromkeys(previous)) for run in range(count)),
        following=tuple(tuple(names[run] for names in following) for run in range(count)),
    )


def _one_after_the_other(
    modules: Mapping[tuple[str, ...], Sequence[tuple[str, ...]]], outside: Outside
) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]] | None:
    """The runs' modules, and the weights of those right before them; None if weights are of any others.

    A backward pass is given its weights one by one: there, those right after them will do, too.
    """
    if len(modules) == 1:
        return next(iter(modules)), ()
    if len(modules) != 2:
        return None
    is_backward = bool(outside.given)
    for paths, before in (tuple(modules), tuple(modules)[::-1]):
        is_chain = all(
            outside.are_neighbours(*(pair[::-1] if is_backward else pair)) for pair in pairwise(paths)
        )
        is_before = all(map(outside.are_neighbours, before, paths))
        is_after = is_backward and all(map(outside.are_neighbours, paths, before))
        # Of as many of both, a derivative that ends in that of the norm before the layer is the layer's.
        is_more = len(modules[paths]) + (is_backward and is_before) > len(modules[before])
        if is_chain and (is_before or is_after) and is_more:
            return paths, modules[before]
    return None


def _one_before_the_other(
    modules: Mapping[tuple[str, ...], Sequence[tuple[str, ...]]], outside: Outside
) -> tuple[tuple[tuple[str, ...], Sequence[tuple[str, ...]]] | None, dict[tuple[str, ...], None]]:
    """The runs' modules, without weights of those before them, and the weights of those right behind them."""
    for paths, behind in (tuple(modules), tuple(modules)[::-1]) if len(modules) == 2 else ():
        is_chain = all(outside.are_neighbours(*pair) for pair in pairwise(paths))
        is_before = is_chain and all(map(outside.are_neighbours, paths, behind))
        if is_before and len(modules[paths]) > len(modules[behind]):
            return (paths, ()), dict.fromkeys(modules[behind])
    return None, {}


def _is_handed_on(names: Sequence[str], made: Sequence[Mapping[str, int]]) -> bool:
    """Whether each run but the first takes what the run before made, always the same of it."""
    numbers = {own.get(name, -1) for own, name in zip(made, names[1:], strict=False)}
    return len(numbers) == 1 and -1 not in numbers


def _outputs(
    named: Sequence[tuple[str, ...]],
    start: int,
    period: int,
    made: Sequence[Mapping[str, int]],
    inputs: Sequence[tuple[str, ...]],
    kept: frozenset[str],
) -> tuple[tuple[str, ...], ...]:
    """What each run hands on, by number of making: first what the next run takes, then what is read later."""
    count = len(made)
    wanted: dict[int, None] = {}
    for names in inputs:
        for run in range(1, count):
            if names[run] in made[run - 1]:
                wanted[made[run - 1][names[run]]] = None
    later = set(kept)
    read_later: set[int] = set()
    later.update(*named[start + count * period :])
    for run in range(count - 1, -1, -1):
        read_later.update(number for name, number in made[run].items() if name in later)
        begin = start + run * period
        later.update(*named[begin : begin + period])
    wanted.update(dict.fromkeys(sorted(read_later)))
    names_of = [{number: name for name, number in own.items()} for own in made]
    return tuple(tuple(own[number] for number in wanted) for own in names_of)


def _module_paths(paths: Sequence[str]) -> list[str] | None:
    """The paths up to the one component, a number, in which they differ; None if they differ otherwise."""
    split = [path.split(".") for path in paths]
    if len({len(parts) for parts in split}) != 1:
        return None
    places = [place for place in range(len(split[0])) if len({parts[place] for parts in split}) > 1]
    if len(places) != 1 or not all(parts[places[0]].isdigit() for parts in split):
        return None
    return [".".join(parts[: places[0] + 1]) for parts in split]


def _token_numbers(steps: Sequence[PlanStep], buffers: Mapping[str, Buffer]) -> list[int]:
    known: dict[object, int] = {}
    return [known.setdefault(_token(step, buffers), len(known)) for step in steps]


def _token(step: PlanStep, buffers: Mapping[str, Buffer]) -> object:
    """What a step does, without the names of buffers."""
    memory = tuple(
        (buffers[name].dtype, buffers[name].shape, buffers[name].stride) for name in references(step)
    )
    match step:
        case Launch():
            sizes = tuple(group.sizes for group in step.groups)
            # Layers may differ in a number: each run says which it passes.
            scalars = tuple(float if isinstance(value, float) else value for value in step.scalars)
            return (step.kernel, sizes, step.ints, scalars, memory)
        case Extern():
            arguments = tuple(_plain((step.args, step.kwargs)))
            outputs = tuple(map(bool, step.outputs))
            return (str(step.target), arguments, outputs, len(step.mutates), memory, step.memory_format)
        case Allocate():
            return ("allocate", memory)
        case Reuse():
            return ("reuse", step.in_place, memory)
        case Release():
            return ("release", memory)
    raise AssertionError(step)


def _plain(argument: Any) -> Iterator[str]:
    """An argument without the names of buffers, as text."""
    if isinstance(argument, View):
        yield f"view {argument.shape} {argument.stride} {argument.offset}"
        yield from (f"{call.target} {call.args}" for call in argument.calls)
    elif isinstance(argument, tuple):
        yield "("
        for part in argument:
            yield from _plain(part)
        yield ")"
    else:
        yield f"{type(argument).__name__} {argument!r}"
