"""What parts of a long derivative have in common, though none of them is all of another: it is one function, too.

Two blocks of one class may differ in how they end, since one of them is fused with what stands before it. What both do
beside that is a part inside of each; or inside of one, where it is all that the other does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from longhand.lower.ir import Extern
from longhand.schedule.functions.alike_calls import call_token
from longhand.schedule.functions.long_functions import ModuleDerivative
from longhand.schedule.layers.model_steps import ModelStep
from longhand.schedule.plan import Launch

FEWEST_ALIKE = 5  # calls that are worth a function which two parts share
_MOST_ROUNDS = 12

Places = tuple[int, ...]  # of calls that stand together
# Some calls of a part as a part of their own; None where they are none.
MakePart = Callable[["PartAt", Places], "ModuleDerivative | None"]
AreAlike = Callable[["PartAt", "PartAt"], bool]  # whether two parts do the same to what they are given


@dataclasses.dataclass(frozen=True)
class PartAt:
    """A part, and the function that it is of, by number."""

    function: int
    part: ModuleDerivative

    def stands_in(self, other: PartAt) -> bool:
        """Whether it is a part of another part, or that part."""
        part, around = self.part, other.part
        return self.function == other.function and around.start <= part.start and part.stop <= around.stop


@dataclasses.dataclass(frozen=True)
class _RunOfCalls:
    """Calls of a part that stand together outside of its own parts: where, and what each does."""

    of: PartAt
    places: Places
    does: tuple[object, ...]


@dataclasses.dataclass(frozen=True)
class _Common:
    """What two runs both do: where it begins in each, and how many calls it is."""

    one: _RunOfCalls
    other: _RunOfCalls
    begin: int
    other_begin: int
    n_calls: int

    @property
    def sides(self) -> tuple[tuple[_RunOfCalls, Places], ...]:
        """Both runs, with the places of what they have in common."""
        return (
            (self.one, self.one.places[self.begin : self.begin + self.n_calls]),
            (self.other, self.other.places[self.other_begin : self.other_begin + self.n_calls]),
        )


def calls_of(part: ModuleDerivative, steps: Sequence[ModelStep]) -> list[tuple[int, object]]:
    """The places of a part's calls, and what each does."""
    some = enumerate(steps[part.start : part.stop], part.start)
    return [(place, call_token(step)) for place, step in some if isinstance(step, Launch | Extern)]


def with_common_parts(
    divided: Sequence[Sequence[ModuleDerivative]],
    tokens: Callable[[PartAt], Sequence[tuple[int, object]]],
    make: MakePart,
    are_alike: AreAlike,
) -> list[tuple[ModuleDerivative, ...]]:
    """The parts of functions, with further ones inside of them that do what others do.

    Args:
        divided: The parts of each function.
        tokens: For a part the places of its calls, and what each does.
        make: Makes a part of some calls of another one.
        are_alike: Whether two parts may be one function.
    """
    parts = [tuple(of_one) for of_one in divided]
    refused: set[tuple[Places, Places]] = set()
    for _ in range(_MOST_ROUNDS):
        made = next(
            filter(None, (_made(one, make, are_alike, refused) for one in _commons(parts, tokens, refused))),
            None,
        )
        if made is None:
            return parts
        for at, inside in made:
            of_one = (_with_inside(part, at.part, inside) for part in parts[at.function])
            parts[at.function] = tuple(of_one)
    return parts


def _commons(
    parts: Sequence[Sequence[ModuleDerivative]],
    tokens: Callable[[PartAt], Sequence[tuple[int, object]]],
    refused: set[tuple[Places, Places]],
) -> list[_Common]:
    """What runs of two parts of one class have in common, the most first."""
    every = [
        PartAt(number, one)
        for number, of_one in enumerate(parts)
        for part in of_one
        for one in part.all_parts
    ]
    runs = [run for at in every if at.part.root == at.part.path for run in _runs(at, tokens(at))]
    found = []
    for number, one in enumerate(runs):
        for other in runs[number + 1 :]:
            is_apart = not one.of.stands_in(other.of) and not other.of.stands_in(one.of)
            if is_apart and one.of.part.class_name == other.of.part.class_name:
                common = _longest(one, other)
                is_new = common.n_calls >= FEWEST_ALIKE and _key(common) not in refused
                found += [common] if is_new and not _is_all(common) else []
    return sorted(found, key=lambda common: -common.n_calls)


def _key(common: _Common) -> tuple[Places, Places]:
    (_, places), (_, others) = common.sides
    return places, others


def _is_all(common: _Common) -> bool:
    """Whether it is all that both parts do: these are one function already, if they may be."""
    return all(places == run.places and not run.of.part.parts for run, places in common.sides)


def _runs(at: PartAt, calls: Sequence[tuple[int, object]]) -> Iterator[_RunOfCalls]:
    run: list[tuple[int, object]] = []
    for place, does in (*calls, (-1, None)):
        if place < 0 or any(part.start <= place < part.stop for part in at.part.parts):
            if len(run) >= FEWEST_ALIKE:
                yield _RunOfCalls(at, tuple(at for at, _ in run), tuple(one for _, one in run))
            run = []
        else:
            run.append((place, does))


def _longest(one: _RunOfCalls, other: _RunOfCalls) -> _Common:
    """The longest stretch of equal calls."""
    best, lengths = (0, 0, 0), [0] * (len(other.does) + 1)
    for end, does in enumerate(one.does, 1):
        now = [0]
        for other_end, other_does in enumerate(other.does, 1):
            now.append(lengths[other_end - 1] + 1 if does == other_does else 0)
            best = max(best, (now[-1], -end, -other_end))
        lengths = now
    n_calls, end, other_end = best
    return _Common(one, other, -end - n_calls, -other_end - n_calls, n_calls)


def _made(
    common: _Common, make: MakePart, are_alike: AreAlike, refused: set[tuple[Places, Places]]
) -> list[tuple[PartAt, ModuleDerivative]]:
    """(part, the new part inside of it) for those of two that do more than both do; none where that is no part."""
    made: list[tuple[PartAt, ModuleDerivative]] = []
    sides: list[PartAt] = []
    for run, places in common.sides:
        if places == run.places and not run.of.part.parts:
            sides.append(run.of)
            continue
        inside = make(run.of, places)
        if inside is not None:
            made.append((run.of, inside))
            sides.append(PartAt(run.of.function, inside))
    if len(sides) == len(common.sides) and are_alike(*sides):
        return made
    refused.add(_key(common))
    return []


def _with_inside(
    part: ModuleDerivative, around: ModuleDerivative, inside: ModuleDerivative
) -> ModuleDerivative:
    """A part, with a new one in it or in one of its own."""
    if part is around:
        own = sorted((*part.parts, inside), key=lambda one: one.start)
        return dataclasses.replace(part, parts=tuple(own))
    if part.start <= around.start and around.stop <= part.stop:
        return dataclasses.replace(part, parts=tuple(_with_inside(one, around, inside) for one in part.parts))
    return part
