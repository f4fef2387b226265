"""Which step must come before which, exactly: from the buffers that steps read and write, and where in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch

from longhand.lower.ir import Contraction, Extern, Index, Load, Nest, Size, Step, Store
from longhand.schedule.once import once_for
from longhand.schedule.sizes import divide, known_at_most, plus, times


@dataclasses.dataclass(frozen=True)
class Effects:
    """The buffers that a step touches, each once, in order of first use.

    Attributes:
        reads: Read, also where the step writes them as well.
        writes: Made or written into.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]


@once_for
def effects(step: Step) -> Effects:
    """What a step reads and writes; what it adds to is both.

    What a contraction hands from its nests to its call, or on, is its own.
    """
    if isinstance(step, Extern):
        viewed = [*(view.buffer for view in step.views()), *step.measured]
        made = [name for name in (*step.outputs, *step.mutates) if name]
        return Effects(tuple(dict.fromkeys(viewed)), tuple(dict.fromkeys(made)))
    if isinstance(step, Contraction):
        if step.steps == (step.call,):
            return effects(step.call)
        own = handed_on(step)
        parts = [effects(part) for part in step.steps]
        return Effects(
            tuple(dict.fromkeys(name for part in parts for name in part.reads if name not in own)),
            tuple(dict.fromkeys(name for part in parts for name in part.writes if name not in own)),
        )
    read = [
        value.buffer
        for value in step.body
        if isinstance(value, Load) or (isinstance(value, Store) and value.adds)
    ]
    written = [value.buffer for value in step.body if isinstance(value, Store)]
    return Effects(tuple(dict.fromkeys(read)), tuple(dict.fromkeys(written)))


def handed_on(step: Contraction) -> frozenset[str]:
    """The buffers between a contraction's call and its nests. One kernel of it all needs no memory for them."""
    stored = {value.buffer for value in step.body if isinstance(value, Store)}
    return frozenset(name for part in step.steps for name in effects(part).writes if name not in stored)


def predecessors(steps: Sequence[Step]) -> list[set[int]]:
    """For each step the steps that must come before it: those whose writes it reads, and whose reads and writes it
    overwrites. Nests that write disjoint parts of one buffer do not wait for each other. What draws random numbers
    draws them in the user's order: a generator hands out one sequence."""
    waits: list[set[int]] = []
    drawn: int | None = None
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    for position, step in enumerate(steps):
        touched = effects(step)
        before: set[int] = set()
        for buffer in touched.reads:
            before.update(writers.get(buffer, ()))
        for buffer in touched.writes:
            before.update(readers.get(buffer, ()))
            before.update(
                w for w in writers.get(buffer, ()) if not writes_are_disjoint(steps[w], step, buffer)
            )
        if draws(step):
            before.update([] if drawn is None else [drawn])
            drawn = position
        before.discard(position)
        waits.append(before)
        for buffer in touched.reads:
            readers.setdefault(buffer, []).append(position)
        for buffer in touched.writes:
            writers.setdefault(buffer, []).append(position)
    return waits


def draws(step: Step) -> bool:
    """Whether a step takes numbers from a generator."""
    return isinstance(step, Extern) and torch.Tag.nondeterministic_seeded in step.target.tags


def writes_are_disjoint(left: Step, right: Step, buffer: str) -> bool:
    """Whether two steps certainly write different elements of a buffer (the parts of a concatenation)."""
    if not (isinstance(left, Nest) and isinstance(right, Nest)):
        return False
    return all(
        indices_are_disjoint(one.index, _sizes(left), other.index, _sizes(right))
        for one in left.body
        if isinstance(one, Store) and one.buffer == buffer
        for other in right.body
        if isinstance(other, Store) and other.buffer == buffer
    )


def indices_are_disjoint(
    left: Index, left_sizes: Mapping[str, Size], right: Index, right_sizes: Mapping[str, Size]
) -> bool:
    """Whether no position is in both ranges, which holds if for some period they fall in different parts of it."""
    if left.values or right.values:
        return False
    periods: list[Size | None] = [None, *dict.fromkeys(c for _, c in (*left.axes, *right.axes) if c != 1)]
    for period in periods:
        one, other = _within(left, left_sizes, period), _within(right, right_sizes, period)
        if one is None or other is None:
            continue
        if known_at_most(one[1], other[0]) or known_at_most(other[1], one[0]):
            return True
    return False


def _within(index: Index, sizes: Mapping[str, Size], period: Size | None) -> tuple[Size, Size] | None:
    """[first, end) of the position's remainder by the period; None where it may wrap around."""
    offset = index.offset
    if isinstance(offset, int) and isinstance(period, int):
        offset %= period
    low: Size = offset
    high: Size = offset
    for axis, coefficient in index.axes:
        if period is not None and divide(coefficient, period) is not None:
            continue
        reach = times(coefficient, plus(sizes[axis], -1))
        if not known_at_most(0, coefficient):
            if not known_at_most(coefficient, 0):
                return None
            low = plus(low, reach)
        else:
            high = plus(high, reach)
    end = plus(high, 1)
    if period is not None and not (known_at_most(0, low) and known_at_most(end, period)):
        return None
    return low, end


def _sizes(nest: Nest) -> dict[str, Size]:
    return {axis.name: axis.size for axis in nest.axes}
