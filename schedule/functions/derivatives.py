"""The functions that a long derivative is told by: one for each part of the forward pass's module that is worth one.

A backward pass reads as the forward pass does, from its end: ``d_x, attn_gradients = attention_backward(...)``. A call
belongs to the innermost module that all statements stand in that it differentiates: one that is fused with a
neighbour's belongs to the module around both. Where a function would be long, the calls of each module inside it that
stand together become a function; that one is divided in the same way. No call is moved, so no value is another.

Memory goes as early as before: what a function makes it drops itself, and what the forward pass saved is dropped from
the record, inside. What the caller holds lives until the function returns: where that would raise the peak of the
function around it (derivative_memory.py), the calls stay there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from longhand.lower.ir import Extern
from longhand.schedule.functions.alike_calls import call_token, modules_around, modules_touched
from longhand.schedule.functions.alike_steps import SharedCall
from longhand.schedule.functions.computed_again import differentiates, modules_of_readers
from longhand.schedule.functions.derivative_memory import MemoryOfSteps
from longhand.schedule.functions.long_functions import LongFunction, ModuleDerivative
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.layers.outside import made_inside, references
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.view_names import named_views, view_key
from longhand.schedule.plan import Allocate, Launch, PlanStep, Release, Reuse, UnitStep

LONGEST = 50  # lines of a function that is not divided
FEWEST = 10  # lines that are worth a function
FEWEST_CALLS = 3
_NEARLY_ALL = 0.9  # of a function: a part that large tells nothing
_MOST_SHARED = 0.5  # lines of what is fused with a neighbour's, by those of a module's own
_MOST_GIVEN = 6
_MOST_HANDED_ON = 8
_MOST_SINGLE = 3  # tensors of the record that a function is given one by one
_MOST_OF_EQUAL = 6  # where it may be one for several modules
_ON_A_LINE = 7  # arguments of a launch
_PLAIN = Launch | Extern | Allocate | Reuse | Release


def find_derivatives(
    function: LongFunction, words: BufferNamer, calls: Mapping[int, SharedCall], memory: MemoryOfSteps
) -> tuple[ModuleDerivative, ...]:
    """The parts of a function, in order.

    Args:
        function: It.
        words: The captured graph's.
        calls: What is a call already, by the first of its steps.
        memory: Of its steps.
    """
    division = _Division(function, words, calls, memory)
    parts = tuple(division.parts(function.path, 0, len(function.steps)))
    n_alike = Counter(inside.does for one in parts for inside in one.all_parts)
    return tuple(_with_alike(one, n_alike, function.saved) for one in parts)


def _with_alike(
    one: ModuleDerivative, n_alike: Mapping[tuple[object, ...], int], saved: frozenset[str]
) -> ModuleDerivative:
    fields = tuple(name for name in one.given if name in saved)
    most = _MOST_OF_EQUAL if n_alike[one.does] > 1 else _MOST_SINGLE
    return dataclasses.replace(
        one,
        parts=tuple(_with_alike(part, n_alike, saved) for part in one.parts),
        is_of_several=n_alike[one.does] > 1,
        told=fields if len(fields) <= most and not one.emptied else (),
    )


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
        self._inside = [_modules_of(step, words) for step in steps]
        for place, reading in modules_of_readers(steps, words, modules_around).items():
            self._inside[place] = {**(self._inside[place] or {}), **reading}
        self._touched = [modules_touched(step, words) for step in steps]
        self._calls = {
            place: call for place, step in enumerate(steps) if (call := calls.get(id(step))) is not None
        }
        self._lines = [_lines_of(step) for step in steps]
        for place, call in self._calls.items():
            self._lines[place : place + call.n_steps] = [1.5, *[0.0] * (call.n_steps - 1)]
        self._named = [frozenset(_named_by(step)) for step in steps]
        self._views = _views_bound(steps, function.variables, words)
        self._made_at: dict[str, int] = {}
        for place, step in enumerate(steps):
            for name in made_inside([step]) if isinstance(step, PlanStep) else ():
                self._made_at.setdefault(name, place)

    def parts(self, path: str, start: int, stop: int, *, is_long: bool = False) -> Iterator[ModuleDerivative]:
        """What the calls of a module between two places are divided into; nothing where they are few.

        Args:
            path: The module.
            start: The first step.
            stop: The one after the last.
            is_long: Whether they stand in a function that is to be divided.
        """
        n_lines = sum(self._lines[start:stop])
        if n_lines <= LONGEST and not is_long:
            return
        for below, first, last in self._runs(path, start, stop):
            begin, end = self._with_memory(first, last, start, stop)
            size = sum(self._lines[begin:end])
            is_part = is_long or size < _NEARLY_ALL * n_lines
            one = self._derivative(below, begin, end) if size >= FEWEST and is_part else None
            inside = tuple(self.parts(below, begin, end, is_long=one is None))
            if one is None:
                yield from inside
            else:
                yield dataclasses.replace(one, parts=inside)

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

    def _derivative(self, path: str, start: int, stop: int) -> ModuleDerivative | None:
        """Some steps as a function; None if they are none by themselves."""
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
        given = [name for name in self._used(start, stop) if name not in made]
        read_later = frozenset().union(*self._named[stop:])
        gradients = [
            name
            for name in made
            if name in function.gradients
            and name not in read_later | function.kept
            and all(below.startswith(_below(path, function.path)) for below in function.gradients[name])
        ]
        others = (read_later | function.kept | function.gradients.keys()) - {*gradients}
        results = [name for name in made if name in others]
        dropped = [name for name in self._dropped(start, stop) if name not in made]
        held = [name for name in given if name not in function.fields]
        emptied = [name for name in dropped if name in function.fields and function.drops_fields]
        is_filled = all(step.buffer in touched for step in steps if isinstance(step, Allocate | Reuse))
        is_one = is_filled and self._have_words(held, results, start, stop)
        is_few = len(held) <= _MOST_GIVEN and len(results) <= _MOST_HANDED_ON and bool(results or gradients)
        if not is_one or not is_few or not self._memory.may_hold(held, start, stop):
            return None
        self._memory.hold(held, start, stop)
        kind = next(
            kind for modules in self._inside[start:stop] for at, kind in (modules or {}).items() if at == path
        )
        return ModuleDerivative(
            path,
            kind,
            start,
            stop,
            tuple(given),
            tuple(results),
            tuple(gradients),
            (kind, *(call_token(step) for step in calls)),
            frozenset(made).union(*(call.made for call in within.values())),
            any(call.taken_from for call in within.values()),
            tuple(name for name in dropped if name not in function.fields),
            tuple(emptied),
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


def _modules_of(step: ModelStep, words: BufferNamer) -> dict[str, str] | None:
    """The modules that all operations of a call stand in, and their classes; None for memory."""
    if isinstance(step, Allocate | Reuse | Release):
        return None
    if isinstance(step, PlanStep):
        return dict(modules_around(step, words))
    common: dict[str, str] | None = None
    for plain in plain_steps(step):
        for one in _calls_in(plain):
            around = modules_around(one, words)
            common = dict(around) if common is None else {p: c for p, c in common.items() if p in around}
    return common or {}


def _calls_in(step: UnitStep) -> list[PlanStep]:
    inside = [step] if isinstance(step, PlanStep) else [one for run in step.runs for one in run]
    return [one for one in inside if isinstance(one, Launch | Extern)]


def _named_by(step: ModelStep) -> Iterator[str]:
    """Every buffer that a step names, but to drop it."""
    for plain in plain_steps(step):
        inside = [plain] if isinstance(plain, PlanStep) else [one for run in plain.runs for one in run]
        for one in inside:
            if not isinstance(one, Release):
                yield from references(one)
        if not isinstance(plain, PlanStep):
            yield from (name for each in (*plain.inputs, *plain.outputs) for name in each)


def _right_below(path: str, modules: Mapping[str, str]) -> str:
    head = f"{path}." if path else ""
    below = (one for one in modules if one.startswith(head) and one != path)
    return min(below, key=len, default="")


def _below(path: str, root: str) -> str:
    """How the paths of a module's weights begin inside another module."""
    return f"{path.removeprefix(f'{root}.') if root else path}."


def _lines_of(step: ModelStep) -> float:
    """How many lines tell a step, roughly, with what stands between paragraphs."""
    if isinstance(step, Launch):
        n_given = len(step.buffers) + len(step.sizes) + len(step.ints) + len(step.scalars)
        return 1.5 if n_given <= _ON_A_LINE else n_given + 2.5
    if isinstance(step, Extern):
        return 2.0
    return 0.5 if isinstance(step, Release) else 1.0 if isinstance(step, PlanStep) else 2.0


def _views_bound(
    steps: Sequence[ModelStep], variables: Mapping[str, str], words: BufferNamer
) -> dict[str, list[int]]:
    """By variable: where it is bound to a view."""
    places: dict[str, list[int]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, Extern):
            for key in (key for line in named_views(step, words) for key in line.keys):
                places.setdefault(variables.get(view_key(step, key), ""), []).append(place)
    return places
