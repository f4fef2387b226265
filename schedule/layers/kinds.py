"""Layers of several kinds in turn: sliding and global attention, shifted windows and others.

No period of one layer fits them, but one of several does: a stretch of the plan's tokens that equals itself moved by
a few layers. Where one layer ends and the next begins is told by the weights that steps read. Layers whose tokens are
equal are of one kind, and those of a kind must correspond as the runs of a `Repeat` do: its own weights, what is the
same for all, what the forward saved for it, and what the layer right before it, of whichever kind, hands on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from longhand.lower.ir import Extern
from longhand.schedule.layers.outside import Outside, made_inside
from longhand.schedule.plan import Allocate, Launch, PlanStep, Repeat, Reuse

MOST_IN_A_ROUND = 12
FEWEST_LAYERS = 3
LONG = 4  # launches and library calls of the shortest layer


@dataclasses.dataclass(frozen=True)
class _Layer:
    """The steps of one layer.

    Attributes:
        position: In the list of modules.
        start: Its first step.
        end: The one after its last.
        kind: Layers of one kind do the same.
    """

    position: int
    start: int
    end: int
    kind: int


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Steps ``start`` to ``end`` repeat themselves with a period."""

    start: int
    end: int
    period: int


def layers_in_turn(
    steps: Sequence[PlanStep],
    named: Sequence[tuple[str, ...]],
    numbers: Sequence[int],
    stretch: Stretch,
    outside: Outside,
    kept: frozenset[str],
) -> tuple[int, int, Repeat] | None:
    """(start, end, repeat) of the layers within a stretch, if they are of several kinds; None if they are not.

    Args:
        steps: Of the plan.
        named: The buffers of each.
        numbers: The token of each.
        stretch: Where to look.
        outside: Weights, and what the forward pass saved.
        kept: Buffers that the caller sees.
    """
    own_list = _list_of(named, stretch, outside)
    if own_list is None:
        return None
    owner, is_backward = own_list
    # A kernel that reads weights of two layers ends the one in a backward pass, as it begins the other in the forward;
    # or else it is where the next one begins.
    sides = (max, min) if is_backward else (max,)
    best: tuple[tuple[int, int, int], tuple[int, int, Repeat]] | None = None
    for side, newest in enumerate(sides):
        starts = _starts(steps, named, stretch, outside, owner, is_backward, newest)
        for back in range(_room(named, starts, outside) + 1):
            layers = _kinds([(position, start - back) for position, start in starts], numbers, stretch)
            fewest = max(FEWEST_LAYERS, len(outside.positions.get(owner, ())) - (2 if is_backward else 1))
            # Fewer come in turn by chance: one function may ask which of the others it is.
            while len({layer.kind for layer in layers}) > 1 and len(layers) >= fewest:
                repeat = _Kinds(steps, named, layers, owner, outside, kept, is_backward).repeat()
                if repeat is not None:
                    n_handed = sum(map(len, repeat.inputs)) + sum(map(len, repeat.outputs))
                    # One layer less is no reason to hand a layer what is its neighbour's.
                    cost = (side - len(layers), side, n_handed)
                    if best is None or cost < best[0]:
                        best = (cost, (layers[0].start, layers[-1].end, repeat))
                    break
                # The first one may begin otherwise.
                layers = layers[1:]
    return None if best is None else best[1]


def _list_of(named: Sequence[tuple[str, ...]], stretch: Stretch, outside: Outside) -> tuple[str, bool] | None:
    """(list, whether its layers come last first) that steps one period apart read weights of; None if there is none."""
    for place in range(stretch.start, stretch.end - stretch.period):
        for name, other in zip(named[place], named[place + stretch.period], strict=True):
            one, next_one = outside.weights.get(name), outside.weights.get(other)
            if one is None or next_one is None or one == next_one:
                continue
            parts, others = one.split("."), next_one.split(".")
            differ = [n for n, pair in enumerate(zip(parts, others, strict=False)) if pair[0] != pair[1]]
            if len(parts) != len(others) or len(differ) != 1:
                return None
            at = differ[0]
            if not at or not (parts[at].isdigit() and others[at].isdigit()):
                return None
            distance = int(others[at]) - int(parts[at])
            if not 2 <= abs(distance) <= MOST_IN_A_ROUND:
                return None
            return ".".join(parts[:at]), distance < 0
    return None


def _position(path: str, owner: str) -> int | None:
    """The place in the list of the module that holds a weight."""
    head = f"{owner}." if owner else ""
    part = path[len(head) :].partition(".")[0] if path.startswith(head) else ""
    return int(part) if part.isdigit() else None


def _starts(
    steps: Sequence[PlanStep],
    named: Sequence[tuple[str, ...]],
    stretch: Stretch,
    outside: Outside,
    owner: str,
    is_backward: bool,
    of_two: Callable[[Sequence[int]], int],
) -> list[tuple[int, int]]:
    """(position, first step) of the layers, in order: a layer begins where its weights are first read.

    `of_two` says which layer a step is of that reads weights of two.
    """
    starts: list[tuple[int, int]] = []
    for place in range(stretch.start, stretch.end):
        read = [_position(outside.weights[name], owner) for name in named[place] if name in outside.weights]
        positions = [one for one in read if one is not None]
        if not positions:
            continue
        newest = of_two(positions)
        if not starts or newest != starts[-1][0]:
            if starts and newest != starts[-1][0] + (-1 if is_backward else 1):
                continue  # of a layer before: whether that may be, the comparison says
            begin = place
            while begin > stretch.start and isinstance(steps[begin - 1], Allocate | Reuse):
                begin -= 1
            starts.append((newest, begin))
    return starts


def _room(
    named: Sequence[tuple[str, ...]],
    starts: Sequence[tuple[int, int]],
    outside: Outside,
) -> int:
    """How many steps before each layer's first one read no weights: they may belong to it."""
    rooms = []
    for _, start in starts[1:]:
        room = 0
        while start - room - 1 >= 0 and not any(name in outside.weights for name in named[start - room - 1]):
            room += 1
        rooms.append(room)
    return min(rooms, default=0)


def _kinds(starts: Sequence[tuple[int, int]], numbers: Sequence[int], stretch: Stretch) -> list[_Layer]:
    """The layers that lie within the stretch, by what they do; the last is as long as one of its kind before."""
    known: dict[tuple[int, ...], int] = {}
    layers: list[_Layer] = []
    for (position, start), (_, end) in pairwise(starts):
        if start < stretch.start:
            continue
        kind = known.setdefault(tuple(numbers[start:end]), len(known))
        layers.append(_Layer(position, start, end, kind))
    if starts and layers:
        position, start = starts[-1]
        for tokens, kind in known.items():
            if tuple(numbers[start : start + len(tokens)]) == tokens:
                layers.append(_Layer(position, start, start + len(tokens), kind))
                break
    # The first may begin with what comes before it: its end is one of a kind after it.
    if layers and sum(layer.kind == layers[0].kind for layer in layers) == 1:
        start, end = layers[0].start, layers[0].end
        tails = [tokens for tokens in known if len(tokens) < end - start]
        for tokens in sorted(tails, key=len, reverse=True):
            if tuple(numbers[end - len(tokens) : end]) == tokens:
                layers[0] = _Layer(layers[0].position, end - len(tokens), end, known[tokens])
                break
    # Alone of its kind, it is no layer in turn.
    while layers and sum(layer.kind == layers[0].kind for layer in layers) == 1:
        layers = layers[1:]
    while layers and sum(layer.kind == layers[-1].kind for layer in layers) == 1:
        layers = layers[:-1]
    return layers


@dataclasses.dataclass
class _Taken:
    """What the runs of one kind take, each as the buffers of all its runs, in order of first use."""

    inputs: dict[tuple[str, ...], None] = dataclasses.field(default_factory=dict)
    own: dict[tuple[str, ...], None] = dataclasses.field(default_factory=dict)
    previous: dict[tuple[str, ...], None] = dataclasses.field(default_factory=dict)


class _Kinds:
    """Layers in order, and whether those of a kind correspond."""

    def __init__(
        self,
        steps: Sequence[PlanStep],
        named: Sequence[tuple[str, ...]],
        layers: Sequence[_Layer],
        owner: str,
        outside: Outside,
        kept: frozenset[str],
        is_backward: bool,
    ) -> None:
        self._runs = [tuple(steps[layer.start : layer.end]) for layer in layers]
        self._named = [named[layer.start : layer.end] for layer in layers]
        self._layers = layers
        self._owner = owner
        self._outside = outside
        self._is_backward = is_backward
        self._made = [made_inside(run) for run in self._runs]
        self._later = kept | {name for names in named[layers[-1].end :] for name in names}

    def repeat(self) -> Repeat | None:
        """The layers as a repeat of several kinds; None if they do not correspond."""
        if min(sum(isinstance(step, Launch | Extern) for step in run) for run in self._runs) < LONG:
            return None
        taken: dict[int, _Taken] = {}
        for kind in dict.fromkeys(layer.kind for layer in self._layers):
            of_kind = self._taken(kind)
            if of_kind is None:
                return None
            taken[kind] = of_kind
        wanted = self._wanted(taken)
        n_runs = range(len(self._runs))
        place_in_kind = [self._of_kind(layer.kind).index(n) for n, layer in enumerate(self._layers)]

        def of_run(run: int, columns: Mapping[tuple[str, ...], None]) -> tuple[str, ...]:
            return tuple(names[place_in_kind[run]] for names in columns)

        own = [taken[layer.kind].own for layer in self._layers]
        previous = [taken[layer.kind].previous for layer in self._layers]
        outputs = []
        for run in n_runs:
            names = {number: name for name, number in self._made[run].items()}
            outputs.append(tuple(names[number] for number in wanted[self._layers[run].kind]))
        return Repeat(
            tuple(self._runs),
            tuple(f"{self._owner}.{layer.position}" for layer in self._layers),
            tuple(of_run(run, taken[self._layers[run].kind].inputs) for run in n_runs),
            tuple(outputs),
            tuple(of_run(run, {**own[run], **previous[run]}) for run in n_runs),
            tuple(of_run(run, previous[run]) for run in n_runs),
            tuple(layer.kind for layer in self._layers),
        )

    def _of_kind(self, kind: int) -> list[int]:
        return [number for number, layer in enumerate(self._layers) if layer.kind == kind]

    def _taken(self, kind: int) -> _Taken | None:
        """What the runs of a kind take from outside; None if they differ in it."""
        runs = self._of_kind(kind)
        taken = _Taken()
        first = self._runs[runs[0]]
        for place in sorted(range(len(first)), key=lambda place: isinstance(first[place], Reuse)):
            for names in zip(*(self._named[run][place] for run in runs), strict=True):
                made = {self._made[run].get(name, -1) for run, name in zip(runs, names, strict=True)}
                if len(made) != 1:
                    return None
                if made == {-1} and not self._take(taken, runs, names):
                    return None
        # Of the weights that a layer reads more are its own than the neighbour's.
        of_itself = [names for names in taken.own if names[0] in self._outside.weights]
        return taken if len(of_itself) > len(taken.previous) else None

    def _take(self, taken: _Taken, runs: Sequence[int], names: tuple[str, ...]) -> bool:
        """Notes what the runs read at one place; whether it corresponds."""
        handed_on = {
            self._made[run - 1].get(name, -1) if run else None for run, name in zip(runs, names, strict=True)
        }
        if -1 not in handed_on:
            taken.inputs[names] = None
            return handed_on != {None}
        if handed_on - {-1, None}:
            return False  # some run takes it of the layer before, another of elsewhere
        weights = [self._outside.weights.get(name) for name in names]
        if None not in weights:
            return self._take_weights(taken, runs, names, [weight for weight in weights if weight])
        if len(set(names)) == 1:
            return not any(names[0] in made for made in self._made)
        if self._outside.given.issuperset(names) and len(set(names)) == len(names):
            taken.own[names] = None
            return True
        return False

    def _take_weights(
        self, taken: _Taken, runs: Sequence[int], names: tuple[str, ...], weights: Sequence[str]
    ) -> bool:
        places = [_position(weight, self._owner) for weight in weights]
        if places == [None] * len(runs):
            return len(set(names)) == 1
        below = set()
        distances = set()
        for run, place, weight in zip(runs, places, weights, strict=True):
            if place is None:
                return False
            distances.add(place - self._layers[run].position)
            below.add(weight[len(f"{self._owner}.{place}" if self._owner else str(place)) :])
        if len(below) != 1 or len(distances) != 1:
            return False
        distance = distances.pop()
        if distance == 0:
            taken.own[names] = None
        elif distance == -1 or (self._is_backward and distance == 1):
            taken.previous[names] = None
        else:
            return False
        return True

    def _wanted(self, taken: Mapping[int, _Taken]) -> dict[int, list[int]]:
        """By kind: the numbers of what its runs hand on, first what the next layer takes."""
        wanted: dict[int, dict[int, None]] = {layer.kind: {} for layer in self._layers}
        for run, name in self._handed_on(taken):
            wanted[self._layers[run].kind][self._made[run][name]] = None
        for run, layer in enumerate(self._layers):
            numbers = sorted(number for name, number in self._made[run].items() if name in self._later)
            wanted[layer.kind].update(dict.fromkeys(numbers))
        return {kind: list(numbers) for kind, numbers in wanted.items()}

    def _handed_on(self, taken: Mapping[int, _Taken]) -> Iterator[tuple[int, str]]:
        """(run, buffer) of what the next run takes of it."""
        for kind, one in taken.items():
            for names in one.inputs:
                for run, name in zip(self._of_kind(kind), names, strict=True):
                    if run and name in self._made[run - 1]:
                        yield run - 1, name
