"""The functions that a long derivative is told by: one for each part of the forward pass's module that is worth one.

A backward pass reads as the forward pass does, from its end: ``d_x, attn_gradients = attention_backward(...)``. A call
belongs to the innermost module that all statements stand in that it differentiates: one that is fused with a
neighbour's belongs to the module around both. Where a function would be long, the calls of each module inside it that
stand together become a function; that one is divided in the same way. No call is moved, so no value is another. Where a
part begins and ends is moved to where the fewest values cross its border (part_borders.py): it may be the derivative of
the norm before its module, too.

Memory goes as early as before: what a function makes it drops itself, and what the forward pass saved is dropped from
the record, inside. What the caller holds lives until the function returns: where that would raise the peak of the
function around it (derivative_memory.py), the calls stay there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from longhand.lower.ir import Extern
from longhand.schedule.functions.alike_calls import call_token, modules_around, modules_touched
from longhand.schedule.functions.alike_parts import are_one, with_alike
from longhand.schedule.functions.call_records import SharedCall
from longhand.schedule.functions.common_parts import PartAt, calls_of, with_common_parts
from longhand.schedule.functions.computed_again import differentiates, modules_of_readers
from longhand.schedule.functions.derivative_memory import MemoryOfSteps
from longhand.schedule.functions.long_functions import LongFunction, ModuleDerivative
from longhand.schedule.functions.part_borders import AroundPart, PartBorder, part_borders
from longhand.schedule.functions.part_steps import (
    is_copy,
    lines_of_step,
    modules_of_step,
    named_by,
    views_bound,
)
from longhand.schedule.layers.outside import made_inside, references
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Reuse

LONGEST = 50  # lines of a function that is not divided
FEWEST = 10  # lines that are worth a function
FEWEST_CALLS = 3
_NEARLY_ALL = 0.9  # of a function: a part that large tells nothing
_MOST_SHARED = 0.5  # lines of what is fused with a neighbour's, by those of a module's own
_MOST_GIVEN = 6
_MOST_HANDED_ON = 8
_PLAIN = Launch | Extern | Allocate | Reuse | Release


def find_derivatives(
    functions: Sequence[LongFunction],
    words: BufferNamer,
    calls: Mapping[int, SharedCall],
    memory: Sequence[MemoryOfSteps],
) -> list[tuple[ModuleDerivative, ...]]:
    """The parts of each function, in order.

    Args:
        functions: All of a backward pass: that of the model, and those of layers.
        words: The captured graph's.
        calls: What is a call already, by the first of its steps.
        memory: Of the steps of each.
    """
    divided, divisions = [], []
    for function, held in zip(functions, memory, strict=True):
        division = _Division(function, words, calls, held)
        around = AroundPart(function.path, function.before)
        divided.append(tuple(division.parts(function.path, 0, len(function.steps), around)))
        divisions.append(division)

    def make(at: PartAt, places: Sequence[int]) -> ModuleDerivative | None:
        return divisions[at.function].inside(at.part, places)

    def are_alike(*both: PartAt) -> bool:
        own = [(at.part, functions[at.function]) for at in both]
        return are_one(own, words)

    found = with_common_parts(
        divided, lambda at: calls_of(at.part, functions[at.function].steps), make, are_alike
    )
    for division, parts in zip(divisions, found, strict=True):
        division.hold(parts)
    return with_alike(functions, found, memory)


@dataclasses.dataclass(frozen=True)
class _Across:
    """What goes into some steps: what variables hold of it; and what comes out."""

    given: tuple[str, ...]
    held: tuple[str, ...]
    results: tuple[str, ...]
    gradients: tuple[str, ...]
    n_values: int


class _Division:
    """Divides one function."""

    def __init__(
        self,
        function: LongFunction,
        words: BufferNamer,
        calls: Mapping[int, SharedCall],
        memory: MemoryOfSteps,
    ) -> None:
        self._function = function
        self._memory = memory
        self._words = words
        steps = function.steps
        self._inside = [modules_of_step(step, words) for step in steps]
        for place, reading in modules_of_readers(steps, words, modules_around).items():
            self._inside[place] = {**(self._inside[place] or {}), **reading}
        self._touched = [modules_touched(step, words) for step in steps]
        self._calls = {
            place: call for place, step in enumerate(steps) if (call := calls.get(id(step))) is not None
        }
        self._lines = [lines_of_step(step) for step in steps]
        for place, call in self._calls.items():
            self._lines[place : place + call.n_steps] = [1.5, *[0.0] * (call.n_steps - 1)]
        self._named = [frozenset(named_by(step)) for step in steps]
        self._views = views_bound(steps, function.variables, words)
        self._made_at: dict[str, int] = {}
        for place, step in enumerate(steps):
            for name in made_inside([step]) if isinstance(step, PlanStep) else ():
                self._made_at.setdefault(name, place)

    def parts(
        self, path: str, start: int, stop: int, around: AroundPart, *, is_long: bool = False
    ) -> Iterator[ModuleDerivative]:
        """What the calls of a module between two places are divided into; nothing where they are few.

        Args:
            path: The module.
            start: The first step.
            stop: The one after the last.
            around: The function that they are to be parts of.
            is_long: Whether they stand in a function that is to be divided.
        """
        n_lines = sum(self._lines[start:stop])
        if n_lines <= LONGEST and not is_long:
            return
        most = sum(self._lines) if is_long else _NEARLY_ALL * n_lines
        told = start
        for below, first, last in self._runs(path, start, stop):
            if last < told:
                continue  # part of the one before
            first = self._first_of_own(max(first, told), last)
            one = self._fewest_across(below, first, last, (told, stop), most, around)
            if one is None:
                begin, end = self._with_memory(first, last, told, stop)
                yield from self.parts(below, begin, end, around, is_long=True)
            else:
                told, also = one.stop, one.also if one.also == around.also else ""
                inside = self.parts(below, one.start, one.stop, AroundPart(one.root, also))
                yield dataclasses.replace(one, parts=tuple(inside))

    def _fewest_across(
        self, path: str, first: int, last: int, within: tuple[int, int], most: float, around: AroundPart
    ) -> ModuleDerivative | None:
        """The calls of a module as a function, with those borders that the fewest values cross; None if it is none.

        Args:
            path: The module.
            first: Its first call.
            last: Its last one.
            within: The first step that may be part of it, and the one after the last.
            most: Lines of it.
            around: The function that calls it.
        """
        calls = [place for place in range(*within) if self._is_call(place)]
        touched = [{*of_one, *(at or {})} for of_one, at in zip(self._touched, self._inside, strict=True)]
        found: list[tuple[int, PartBorder, int, int]] = []
        for border in part_borders(path, first, last, calls, touched, around):
            start, stop = self._with_memory(border.first, border.last, *within)
            if FEWEST <= sum(self._lines[start:stop]) <= most:
                found.append((self._across(border, start, stop).n_values, border, start, stop))
        for _, border, start, stop in sorted(found, key=lambda one: one[0]):
            if (one := self._derivative(border, start, stop)) is not None:
                return one
        return None

    def _is_call(self, place: int) -> bool:
        return self._inside[place] is not None

    def _first_of_own(self, first: int, last: int) -> int:
        """The first call of a part, which is given what lies as its loops read it: any other layout is its caller's."""
        calls = [place for place in range(first, last + 1) if self._is_call(place)]
        return next((place for place in calls if not is_copy(self._function.steps[place])), calls[0])

    def _runs(self, path: str, start: int, stop: int) -> list[tuple[str, int, int]]:
        """(module right below this one, its first call, its last call) of calls that stand together, in order."""
        runs: list[tuple[str, int, int]] = []
        for place in range(start, stop):
            modules = self._inside[place]
            if modules is None:
                continue
            below = _right_below(path, modules)
            if runs and runs[-1][0] == below:
                runs[-1] = (below, runs[-1][1], place)
            else:
                runs.append((below, place, place))
        runs = self._joined(runs)
        return [run for run in runs if run[0]]

    def _joined(self, runs: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
        """The runs, where one module's go on after a call that is fused with a neighbour's as one."""
        joined: list[tuple[str, int, int]] = []
        for run in runs:
            is_more = len(joined) > 1 and joined[-2][0] == run[0] and bool(run[0])
            if is_more and self._is_shared(run[0], joined[-1], [joined[-2], run]):
                joined[-2:] = [(run[0], joined[-2][1], run[2])]
            else:
                joined.append(run)
        return joined

    def _is_shared(
        self, path: str, run: tuple[str, int, int], beside: Sequence[tuple[str, int, int]]
    ) -> bool:
        """Whether a module takes part in each call of a run, which is no other module's and the smaller part."""
        own, others = (sum(map(self._size, runs)) for runs in (beside, [run]))
        if others > _MOST_SHARED * own:
            return False
        places = (place for place in range(run[1], run[2] + 1) if self._inside[place] is not None)
        return not run[0] and all(path in self._touched[place] for place in places)

    def _size(self, run: tuple[str, int, int]) -> float:
        return sum(self._lines[run[1] : run[2] + 1])

    def _with_memory(self, first: int, last: int, start: int, stop: int) -> tuple[int, int]:
        """The calls from one to another with the memory that is made for them, and what is dropped after them."""
        steps = self._function.steps
        begin, end = first, last + 1
        while begin > start and isinstance(steps[begin - 1], Allocate | Reuse):
            begin -= 1
        while end < stop and isinstance(steps[end], Release):
            end += 1
        return begin, end

    def _across(self, border: PartBorder, start: int, stop: int) -> _Across:
        """What goes into some steps, and comes out of them."""
        function = self._function
        made = made_inside([step for step in function.steps[start:stop] if isinstance(step, PlanStep)])
        given = tuple(name for name in self._used(start, stop) if name not in made)
        read_later = frozenset().union(*self._named[stop:])
        whole = {
            name: [f"{function.path}.{one}".removeprefix(".") for one in paths]
            for name, paths in function.gradients.items()
        }
        gradients = [name for name in made if name in whole and all(map(border.holds, whole[name]))]
        gradients = [name for name in gradients if name not in read_later | function.kept]
        if border.also and border.also == function.before:
            gradients += [name for name in made if name in function.of_before and name not in read_later]
        others = (read_later | function.kept | function.gradients.keys()) - {*gradients}
        results = tuple(name for name in made if name in others)
        held = tuple(name for name in given if name not in function.fields)
        heads = tuple(f"{one}." for one in (border.root, border.also) if one)
        apart = [
            name
            for name in given
            if name in function.weights and not function.weights[name].startswith(heads)
        ]
        return _Across(given, held, results, tuple(gradients), len(held) + len(results) + len(apart))

    def _derivative(
        self, border: PartBorder, start: int, stop: int, is_tried: bool = False
    ) -> ModuleDerivative | None:
        """Some steps as a function; None if they are none by themselves. `is_tried`: whether it may be none yet."""
        function = self._function
        steps = [step for step in function.steps[start:stop] if isinstance(step, _PLAIN)]
        are_whole = all(
            (start <= place and place + call.n_steps <= stop)
            or place + call.n_steps <= start
            or stop <= place
            for place, call in self._calls.items()
        )
        calls = [step for step in steps if isinstance(step, Launch | Extern)]
        are_whole = are_whole and function.fixed.isdisjoint(range(start, stop))
        is_derivative = 2 * sum(differentiates(step, self._words) for step in calls) >= len(calls)
        if len(steps) < stop - start or not are_whole or len(calls) < FEWEST_CALLS or not is_derivative:
            return None
        made = made_inside(steps)
        touched = {name for step in calls for name in references(step)}
        within = {place: call for place, call in self._calls.items() if start <= place < stop}
        across = self._across(border, start, stop)
        held, results = across.held, across.results
        dropped = [name for name in self._dropped(start, stop) if name not in made]
        emptied = [name for name in dropped if name in function.fields and function.drops_fields]
        is_filled = all(step.buffer in touched for step in steps if isinstance(step, Allocate | Reuse))
        is_one = is_filled and self._have_words(held, results, start, stop)
        is_few = len(held) <= _MOST_GIVEN and len(results) <= _MOST_HANDED_ON
        is_few = is_few and bool(results or across.gradients)
        if not is_one or not is_few or not self._memory.may_hold(held, start, stop):
            return None
        if not is_tried:
            self._memory.hold(held, start, stop)
        kind = next(
            kind
            for modules in self._inside[start:stop]
            for at, kind in (modules or {}).items()
            if at == border.path
        )
        return ModuleDerivative(
            border.path,
            border.root,
            border.also,
            border.without,
            kind,
            start,
            stop,
            across.given,
            results,
            across.gradients,
            (kind, *(call_token(step) for step in calls)),
            frozenset(made).union(*(call.made for call in within.values())),
            any(call.taken_from for call in within.values()),
            tuple(name for name in dropped if name not in function.fields),
            tuple(emptied),
        )

    def hold(self, parts: Iterable[ModuleDerivative]) -> None:
        """What parts are given lives until they are over."""
        for part in (inside for one in parts for inside in one.all_parts):
            held = [name for name in part.given if name not in self._function.fields]
            self._memory.hold(held, part.start, part.stop)

    def inside(self, part: ModuleDerivative, places: Sequence[int]) -> ModuleDerivative | None:
        """Some calls of a part as one inside of it; None if they are none by themselves."""
        start, stop = self._with_memory(places[0], places[-1], part.start, part.stop)
        if sum(self._lines[start:stop]) < FEWEST:
            return None
        return self._derivative(
            PartBorder(part.path, places[0], places[-1], root=part.root), start, stop, is_tried=True
        )

    def _beside(self, start: int, stop: int) -> Iterator[PlanStep | SharedCall]:
        """Some steps, with those that are a call as one."""
        place = start
        while place < stop:
            call, step = self._calls.get(place), self._function.steps[place]
            if call is not None:
                yield call
            elif isinstance(step, PlanStep):
                yield step
            place += 1 if call is None else call.n_steps

    def _used(self, start: int, stop: int) -> list[str]:
        """What calls name, in order, and then what only memory is taken from."""
        called: list[str] = []
        besides: list[str] = []
        for step in self._beside(start, stop):
            match step:
                case SharedCall():
                    called += step.tensors
                case Launch() | Extern():
                    called += references(step)
                case Reuse():
                    besides.append(step.of)
                case Allocate():
                    besides += step.beside
        return list(dict.fromkeys([*called, *besides]))

    def _dropped(self, start: int, stop: int) -> Iterator[str]:
        for step in self._beside(start, stop):
            if isinstance(step, SharedCall):
                yield from (name for name in step.released if name not in step.made)
            elif isinstance(step, Release):
                yield from step.buffers

    def _have_words(self, held: Collection[str], results: Collection[str], start: int, stop: int) -> bool:
        """Whether what a function takes and hands on are variables, each of one thing, that no view has taken over."""
        variables = self._function.variables
        for names, end in ((held, start), (results, stop)):
            words = [variables.get(name, "") for name in names]
            if len(set(words)) < len(words) or not all(word.isidentifier() for word in words):
                return False
            for name, word in zip(names, words, strict=True):
                begin = self._made_at.get(name, 0)
                if any(begin <= place < end for place in self._views.get(word, ())):
                    return False
        return True


def _right_below(path: str, modules: Mapping[str, str]) -> str:
    head = f"{path}." if path else ""
    below = (one for one in modules if one.startswith(head) and one != path)
    return min(below, key=len, default="")
