"""The search of `longhand tune`: coordinate descent over tunables, with the measuring left to somebody else.

Each tunable is doubled and halved, and moved on in the same direction as long as that is faster. Where neither
neighbour is, it is moved by a factor of eight, since some tunables (GRAIN, SPLITS) change nothing until they cross a
size of the call. Then pairs: a size together with NUM_WARPS, because work per thread often has to stay what it is.
That is repeated from the best point until nothing is faster. What was tried is not tried again.

A point counts while searching if it is faster than the best so far by more than a hundredth. Whether the last one is
really faster than what stood in the file is not decided here but by a longer measurement (`tune.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

Values = Mapping[str, int]

_LIMITS = {"NUM_WARPS": (1, 32), "NUM_STAGES": (1, 6), "WARP_ELEMENTS": (256, 8192)}
_SIZE_LIMITS = (1, 2**24)
_STEPS = (2.0, 0.5)
_LEAPS = (8.0, 0.125)
_SEARCH_MARGIN = 0.01
# CUDA: a thread has 255 registers, and the compiler takes minutes over kernels that need many times more.
_MOST_ELEMENTS = 256
_THREADS_PER_WARP = 32


class Course(Protocol):
    """What measures one kernel."""

    def refusal(self, values: Values) -> str | None:
        """Why these values cannot be: too much shared memory, a wrong result. None if they can."""
        ...

    def ratio(self, values: Values) -> float:
        """The kernel's time with these values over its time as it stands."""
        ...


@dataclasses.dataclass(frozen=True)
class Found:
    """What a search ended with.

    Attributes:
        best: The fastest values.
        n_tried: Points that were measured.
        skipped: (values, why) of points that cannot be.
        is_complete: Whether it ended by itself, not by the clock.
    """

    best: dict[str, int]
    n_tried: int
    skipped: tuple[tuple[dict[str, int], str], ...]
    is_complete: bool


def search(
    start: Values,
    free: tuple[str, ...],
    course: Course,
    *,
    is_over: Callable[[], bool],
    tell: Callable[[Values], None] = lambda _: None,
) -> Found:
    """Looks for faster values of some tunables.

    Args:
        start: All tunables as they are.
        free: Those that may change.
        course: Measures.
        is_over: Whether the time is up; asked before each measurement.
        tell: Is told what will be tried next.
    """
    descent = _Descent(dict(start), course, is_over, tell)
    is_complete = descent.run(free)
    return Found(descent.best, descent.n_tried, tuple(descent.skipped), is_complete)


def crowding(values: Values) -> str | None:
    """Why a Triton kernel with these tunables need not be compiled: too many elements a thread. None if it may be."""
    if "NUM_WARPS" not in values:
        return None
    elements = values.get("ELEMENTS") or values.get("BLOCK") or values.get("TILE", 0) ** 2
    elements = elements or values.get("ROWS", 1) * values.get("COLS", values.get("MAX_COLS", 1))
    per_thread = elements // (_THREADS_PER_WARP * values["NUM_WARPS"])
    if per_thread <= _MOST_ELEMENTS:
        return None
    return f"gives a thread {per_thread} elements, and it has 255 registers"


class _Descent:
    """Where a search stands."""

    def __init__(
        self,
        start: dict[str, int],
        course: Course,
        is_over: Callable[[], bool],
        tell: Callable[[Values], None],
    ) -> None:
        self.best = start
        self.n_tried = 0
        self.skipped: list[tuple[dict[str, int], str]] = []
        self._ratio = 1.0
        self._seen = {_point(start)}
        self._course, self._is_over, self._tell = course, is_over, tell

    def run(self, free: tuple[str, ...]) -> bool:
        """Descends; False if the time was up before the end."""
        is_better = True
        while is_better:
            is_better = False
            for near, far in _directions(free):
                moved = self._follow(near)
                if moved is None:
                    return False
                if not moved and far:
                    moved = self._follow(far)
                    if moved is None:
                        return False
                is_better |= moved
        return True

    def _follow(self, moves: tuple[Mapping[str, float], ...]) -> bool | None:
        """Goes in the first of these directions that is faster, as far as it is; None if the time is up."""
        for move in moves:
            has_moved = False
            while (point := _moved(self.best, move)) is not None and _point(point) not in self._seen:
                if self._is_over():
                    return None
                if not self._is_faster(point):
                    break
                has_moved = True
            if has_moved:
                return True
        return False

    def _is_faster(self, point: dict[str, int]) -> bool:
        self._seen.add(_point(point))
        self._tell(point)
        reason = self._course.refusal(point)
        if reason is not None:
            self.skipped.append((point, reason))
            return False
        self.n_tried += 1
        ratio = self._course.ratio(point)
        if ratio > self._ratio * (1 - _SEARCH_MARGIN):
            return False
        self.best, self._ratio = point, ratio
        return True


def _directions(
    free: tuple[str, ...],
) -> Iterator[tuple[tuple[dict[str, float], ...], tuple[dict[str, float], ...]]]:
    """(near moves, far moves to try where none of the near ones is faster), each a factor by tunable."""
    for name in free:
        far = () if name in _LIMITS else tuple({name: factor} for factor in _LEAPS)
        yield tuple({name: factor} for factor in _STEPS), far
    if "NUM_WARPS" in free:
        for name in free:
            if name not in _LIMITS:
                yield tuple({name: factor, "NUM_WARPS": factor} for factor in _STEPS), ()


def _moved(values: Values, move: Mapping[str, float]) -> dict[str, int] | None:
    """The point a move away; None where there is none."""
    moved = dict(values)
    for name, factor in move.items():
        low, high = _LIMITS.get(name, _SIZE_LIMITS)
        if name == "NUM_STAGES":
            moved[name] += 1 if factor > 1 else -1
        else:
            moved[name] = int(moved[name] * factor)
        if not low <= moved[name] <= high:
            return None
    return moved


def _point(values: Values) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(values.items()))
