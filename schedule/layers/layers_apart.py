"""Equal layers with other steps between them: two layers whose ends are fused with what stands around them, say.

A loop needs whole layers, one right after the other. Where there are only two or three, the first often begins with
the embedding and the last ends with the head's norm, and what is between them is one kernel of both. What is left
inside each is the same all the same: one function, called where the layer is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from longhand.lower.ir import Extern
from longhand.schedule.layers.layer_pairs import LayerPair
from longhand.schedule.layers.outside import Outside, made_inside, references
from longhand.schedule.plan import Allocate, Launch, PlanStep, Repeat, Reuse, UnitStep, buffers_read

FEWEST_CALLS = 4  # launches and library calls that are worth a function
MOST_GIVEN = 12  # tensors that differ from call to call, beside what a layer holds

OneClass = Callable[[str, str], bool]  # whether one class can make the modules at two paths


@dataclasses.dataclass(frozen=True)
class _LayerStretch:
    """What two layers do alike: steps ``start`` to ``end``, and those so many places later.

    Attributes:
        start: The first step.
        end: The one after the last.
        distance: How much later the other layer does it.
        paths: The modules of both.
        n_calls: Launches and library calls of one of them.
        n_own: How many tensors of its own a layer reads there.
    """

    start: int
    end: int
    distance: int
    paths: tuple[str, str]
    n_calls: int
    n_own: int


def fold_layers_apart(
    steps: Sequence[UnitStep],
    numbers: Callable[[Sequence[PlanStep]], list[int]],
    outside: Outside,
    kept: frozenset[str],
    is_one_class: OneClass,
) -> list[UnitStep]:
    """The steps, with what equal layers do alike as a `Repeat` of one run for each, that say which belong together.

    Args:
        steps: Of the plan, loops folded.
        numbers: A number for what each step does, whichever buffers it names.
        outside: Weights, and what the forward pass saved.
        kept: Buffers that the caller sees.
        is_one_class: Whether one class can make the modules at two paths.
    """
    folded_steps = list(steps)
    taken = {path.rpartition(".")[0] for step in steps if isinstance(step, Repeat) for path in step.paths}
    for family in count():
        places = _Places(folded_steps, numbers, outside, kept, is_one_class, taken)
        best = places.best()
        if best is None:
            return folded_steps
        taken.add(best.paths[0].rpartition(".")[0])
        folded_steps = places.folded(best, family)
    raise AssertionError


class _Places:
    """Where in a list of steps layers do the same."""

    def __init__(
        self,
        steps: Sequence[UnitStep],
        numbers: Callable[[Sequence[PlanStep]], list[int]],
        outside: Outside,
        kept: frozenset[str],
        is_one_class: OneClass,
        taken: set[str],
    ) -> None:
        self._steps = steps
        plain = [step for step in steps if not isinstance(step, Repeat)]
        known = iter(numbers(plain))
        # Nothing equals a repeat: stretches end there.
        self._numbers = [-n - 1 if isinstance(step, Repeat) else next(known) for n, step in enumerate(steps)]
        self._named = [() if isinstance(step, Repeat) else references(step) for step in steps]
        self._outside, self._kept = outside, kept
        self._is_one_class, self._taken = is_one_class, taken
        self._filled = self._first_calls()

    def best(self) -> _LayerStretch | None:
        """What saves most lines."""
        whole = [stretch for stretch in self._stretches() if self._is_most_of_its_layer(stretch)]
        return max(whole, key=lambda one: (one.n_calls, -one.start, -one.distance), default=None)

    def folded(self, stretch: _LayerStretch, family: int) -> list[UnitStep]:
        """The steps with a repeat of one run for each layer that does what the stretch says."""
        length = stretch.end - stretch.start
        begins = [(stretch.start, stretch.paths[0]), *self._twins(stretch)]
        runs = self._repeats([begin for begin, _ in begins], [path for _, path in begins], length, family)
        folded_steps: list[UnitStep] = []
        place = 0
        for (begin, _), repeat in zip(begins, runs, strict=True):
            folded_steps += [*self._steps[place:begin], repeat]
            place = begin + length
        return [*folded_steps, *self._steps[place:]]

    def _first_calls(self) -> dict[str, int]:
        """By buffer that is allocated or takes memory over: the first call that touches it, which fills it."""
        waiting: set[str] = set()
        calls: dict[str, int] = {}
        for place, step in enumerate(self._steps):
            if isinstance(step, Allocate | Reuse):
                waiting.add(step.buffer)
            elif isinstance(step, Launch | Extern):
                for name in waiting.intersection(self._named[place]):
                    calls[name] = place
                    waiting.discard(name)
        return calls

    def _stretches(self) -> Iterator[_LayerStretch]:
        last: dict[int, int] = {}
        distances: dict[int, None] = {}
        for place, number in enumerate(self._numbers):
            if number in last:
                distances[place - last[number]] = None
            last[number] = place
        for distance in sorted(distances):
            start = 0
            for place in range(len(self._numbers) - distance + 1):
                end = place + distance
                if end < len(self._numbers) and self._numbers[place] == self._numbers[end]:
                    continue
                if place > start:
                    yield from self._within(start, place, distance)
                start = place + 1

    def _within(self, start: int, end: int, distance: int) -> Iterator[_LayerStretch]:
        """The parts of equal tokens in which the buffers correspond, too."""
        while start < end:
            pair = LayerPair(self._outside)
            place = start
            while place < end and place - start < distance and self._takes(pair, place, distance):
                place += 1
            stretch = self._trimmed(start, place, distance, pair)
            if stretch is not None:
                yield stretch
            start = max(place, start + 1)

    def _takes(self, pair: LayerPair, place: int, distance: int) -> bool:
        for shift in (0, distance):
            for name in self._named[place + shift]:
                made_before = self._filled.get(name) == place + shift and isinstance(
                    self._steps[place + shift], Launch | Extern
                )
                if made_before and name not in pair.made[shift > 0]:
                    return False  # its memory is made before the stretch
        first, second = self._steps[place], self._steps[place + distance]
        return not isinstance(first, Repeat) and not isinstance(second, Repeat) and pair.add(first, second)

    def _trimmed(self, start: int, end: int, distance: int, pair: LayerPair) -> _LayerStretch | None:
        """The stretch without memory at its end that nothing in it fills; None if it is no part of a layer."""
        end = self._end(start, end)
        n_calls = sum(isinstance(step, Launch | Extern) for step in self._steps[start:end])
        if n_calls < FEWEST_CALLS or pair.paths is None or len(pair.given) > MOST_GIVEN:
            return None
        owner = pair.paths[0].rpartition(".")[0]
        if not owner or owner in self._taken or not self._is_one_class(*pair.paths):
            return None
        return _LayerStretch(start, end, distance, pair.paths, n_calls, len(pair.own))

    def _end(self, start: int, end: int) -> int:
        """Where a stretch ends that fills all memory that it makes."""
        for place in range(start, end):
            step = self._steps[place]
            if isinstance(step, Allocate | Reuse) and self._filled.get(step.buffer, end) >= end:
                return self._end(start, place)
        while end > start and not isinstance(self._steps[end - 1], Launch | Extern):
            end -= 1
        return end

    def _is_most_of_its_layer(self, stretch: _LayerStretch) -> bool:
        """Whether it reads half of the weights or more that the layer's steps read."""
        head = f"{stretch.paths[0]}."
        weights = self._outside.weights

        def read(start: int, end: int) -> set[str]:
            names = (name for named in self._named[start:end] for name in named)
            return {name for name in names if weights.get(name, "").startswith(head)}

        return 2 * len(read(stretch.start, stretch.end)) >= len(read(0, len(self._steps)))

    def _twins(self, stretch: _LayerStretch) -> Iterator[tuple[int, str]]:
        """(first step, path) of each other layer that does the same."""
        length = stretch.end - stretch.start
        wanted = self._numbers[stretch.start : stretch.end]
        begin = stretch.end
        seen = {stretch.paths[0]}
        while begin + length <= len(self._numbers):
            pair = LayerPair(self._outside)
            is_twin = self._numbers[begin : begin + length] == wanted and all(
                self._takes(pair, place, begin - stretch.start) for place in range(stretch.start, stretch.end)
            )
            path = pair.paths[1] if is_twin and pair.paths is not None else ""
            is_new = bool(path) and path not in seen and pair.paths == (stretch.paths[0], path)
            is_new = is_new and self._is_one_class(stretch.paths[0], path)
            if is_new:
                seen.add(path)
                yield begin, path
            begin += length if is_new else 1

    def _repeats(self, begins: Sequence[int], paths: Sequence[str], length: int, family: int) -> list[Repeat]:
        plain = [
            tuple(step for step in self._steps[begin : begin + length] if not isinstance(step, Repeat))
            for begin in begins
        ]
        made = [made_inside(run) for run in plain]
        given: dict[tuple[str, ...], None] = {}
        own: dict[tuple[str, ...], None] = {}
        # In the order in which calls take it, not in that of what gives way first.
        order = sorted(range(length), key=lambda place: isinstance(plain[0][place], Reuse))
        for place in order:
            for names in zip(*(self._named[begin + place] for begin in begins), strict=True):
                if names[0] in made[0] or len(set(names)) == 1:
                    continue
                is_own = names[0] in self._outside.weights or names[0] in self._outside.given
                (own if is_own else given)[names] = None
        wanted: set[int] = set()
        for begin, own_made in zip(begins, made, strict=True):
            elsewhere = (*self._steps[:begin], *self._steps[begin + length :])
            read = self._kept.union(*(_read(step) for step in elsewhere))
            wanted.update(number for name, number in own_made.items() if name in read)
        repeats = []
        for number, run in enumerate(plain):
            names_of = {place: name for name, place in made[number].items()}
            repeats.append(
                Repeat(
                    (run,),
                    (paths[number],),
                    (tuple(names[number] for names in given),),
                    (tuple(names_of[place] for place in sorted(wanted)),),
                    (tuple(names[number] for names in own),),
                    ((),),
                    family=family,
                )
            )
        return repeats


def _read(step: UnitStep) -> frozenset[str]:
    return frozenset(buffers_read(step))
