"""What a function's steps hold at once, and whether parts of them may hold what they are given until they return.

A caller's variable keeps a tensor until the call is over, though what is called reads it no more. That is nothing where
the function around needs more at another moment; where it would need more than ever before, the part is no function.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from longhand.lower.ir import Buffer
from longhand.schedule.layers.model_steps import ModelStep, plain_steps
from longhand.schedule.layers.outside import made_inside
from longhand.schedule.plan import PlanStep, Release, Reuse, UnitStep
from longhand.schedule.sizes import Hints, guess, product


class MemoryOfSteps:
    """The memory that a function's steps hold.

    Args:
        steps: In order.
        buffers: The plan's, by name.
        hints: For sizes.
    """

    def __init__(self, steps: Sequence[ModelStep], buffers: Mapping[str, Buffer], hints: Hints) -> None:
        self._n_steps = len(steps)
        self._of: dict[str, str] = {}  # by buffer: the first whose memory it has
        self._begin: dict[str, int] = {}
        self._end: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._inside = [
            sum(_bytes_inside(plain, buffers, hints) for plain in plain_steps(step)) for step in steps
        ]
        for place, step in enumerate(steps):
            if isinstance(step, Reuse):
                self._of[step.buffer] = self._first(step.of)
                continue
            for name in _made(step):
                self._begin.setdefault(name, place)
            for name in step.buffers if isinstance(step, Release) else ():
                self._end[self._first(name)] = place
        names = {*self._begin, *self._end}
        self._bytes = {name: _bytes_of(buffers[name], hints) for name in names if name in buffers}
        self._peak = self._highest()

    def may_hold(self, names: Collection[str], start: int, stop: int) -> bool:
        """Whether the memory of some buffers may stay until a part of the steps is over."""
        before = dict(self._end)
        self.hold(names, start, stop)
        is_as_before = self._highest() <= self._peak
        self._end = before
        return is_as_before

    def hold(self, names: Collection[str], start: int, stop: int) -> None:
        """It does."""
        for name in map(self._first, names):
            if start <= self._end.get(name, -1) < stop:
                self._end[name] = max(self._end[name], stop - 1)

    def _first(self, name: str) -> str:
        return self._of.get(name, name)

    def _highest(self) -> int:
        changes = [0] * (self._n_steps + 2)
        for name, size in self._bytes.items():
            changes[self._begin.get(name, 0)] += size
            changes[self._end.get(name, self._n_steps) + 1] -= size
        now = highest = 0
        for place in range(self._n_steps):
            now += changes[place]
            highest = max(highest, now + self._inside[place])
        return highest


def _made(step: ModelStep) -> Collection[str]:
    if isinstance(step, PlanStep):
        return made_inside([step])
    return [
        name
        for plain in plain_steps(step)
        if not isinstance(plain, PlanStep)
        for of in plain.outputs
        for name in of
    ]


def _bytes_of(buffer: Buffer, hints: Hints) -> int:
    return guess(product(buffer.shape), hints) * buffer.dtype.itemsize


def _bytes_inside(step: UnitStep, buffers: Mapping[str, Buffer], hints: Hints) -> int:
    """What layers hold at once beside what they are given and hand on, at the most."""
    if isinstance(step, PlanStep):
        return 0
    return max((_Run(run, buffers, hints).peak for run in step.runs), default=0)


class _Run(MemoryOfSteps):
    """One layer's."""

    @property
    def peak(self) -> int:
        """The most that it holds."""
        return self._peak
