"""The fewest loops over a row that compute a reducing body, and what each of them does.

A later loop computes again what it needs, or reads back what an earlier one put aside (inter_pass_caching.py).
"""

from __future__ import annotations

import dataclasses

from longhand.lower.ir import Load, Reduce, Store, arguments
from longhand.schedule.kernels.inter_pass_caching import InterPassCache
from longhand.schedule.kernels.kernel_plan import OnlineSoftmax, Pass, Stage
from longhand.schedule.kernels.pass_depths import PassDepths


@dataclasses.dataclass(frozen=True)
class Passes:
    """The loops of a kernel.

    Attributes:
        before: See `KernelPlan.before`.
        passes: In order.
    """

    before: tuple[int, ...]
    passes: tuple[Pass, ...]

    @property
    def is_splittable(self) -> bool:
        """Whether chunks of the one loop can run at the same time: no element waits for a reduction."""
        return len(self.passes) == 1

    @property
    def writes_elements(self) -> bool:
        """Whether a loop stores something for each element."""
        return any(one.stores for one in self.passes)


def find_passes(depths: PassDepths, cache: InterPassCache) -> Passes:
    """Distribute a body over its loops. `cache` decides what is kept from one to the next."""
    stores = [_element_stores(depths, number) for number in range(depths.n_passes)]
    reductions = [_reductions(depths, number) for number in range(depths.n_passes)]
    computed: list[set[int]] = []
    from_stage: list[set[int]] = []
    for number in range(depths.n_passes):
        roots = [root for store in stores[number] for root in depths.roots(store)]
        roots += [argument for total in _sums(depths, number) for argument in arguments(depths.body[total])]
        for entry in reductions[number]:
            reduce = depths.body[entry.max if isinstance(entry, OnlineSoftmax) else entry]
            assert isinstance(reduce, Reduce)
            roots.append(reduce.arg)
        now, staged = _cone(depths, roots, number, computed, cache)
        computed.append(now)
        from_stage.append(staged)
    before, then = _place_outer(depths)
    passes = tuple(
        Pass(
            compute=tuple(sorted(computed[number])),
            from_stage=tuple(sorted(from_stage[number])),
            reductions=reductions[number],
            stages=tuple(Stage(kept.position, kept.store) for kept in cache.kept if kept.written == number),
            stores=stores[number],
            then=then[number],
            sums=_sums(depths, number),
        )
        for number in range(depths.n_passes)
    )
    return Passes(before, passes)


def store_pass(depths: PassDepths, store: int) -> int:
    """The loop in which an element store is done: as early as its value is there, but never before a loop that reads
    the same memory."""
    value = depths.body[store]
    assert isinstance(value, Store)
    is_read = any(isinstance(other, Load) and other.buffer == value.buffer for other in depths.body)
    return depths.n_passes - 1 if is_read else depths.depth[store]


def _element_stores(depths: PassDepths, number: int) -> tuple[int, ...]:
    return tuple(
        position
        for position, value in enumerate(depths.body)
        if isinstance(value, Store)
        and depths.is_element[position]
        and value.value not in depths.column_reductions
        and store_pass(depths, position) == number
    )


def _sums(depths: PassDepths, number: int) -> tuple[int, ...]:
    """The sums across the loops to which a loop adds: as early as there is something to add."""
    return tuple(
        position for position in sorted(depths.column_reductions) if depths.depth[position] == number
    )


def _reductions(depths: PassDepths, number: int) -> tuple[int | OnlineSoftmax, ...]:
    pairs = {pair.max: pair for pair in depths.online}
    sums = {pair.sum for pair in depths.online}
    return tuple(
        pairs.get(position, position)
        for position, value in enumerate(depths.body)
        if isinstance(value, Reduce)
        and depths.depth[position] == number + 1
        and position not in sums | depths.column_reductions
    )


def _cone(
    depths: PassDepths, roots: list[int], number: int, computed: list[set[int]], cache: InterPassCache
) -> tuple[set[int], set[int]]:
    """The element values that a loop computes, and those that it reads back."""
    now: set[int] = set()
    staged: set[int] = set()
    waiting = sorted(set(roots), reverse=True)
    while waiting:
        position = waiting.pop()
        if position in now or position in staged or not depths.is_element[position]:
            continue
        if depths.is_leaf(position) or isinstance(depths.body[position], Reduce):
            continue
        earlier = next((count for count, done in enumerate(computed) if position in done), None)
        if earlier is not None and cache.keep(position, earlier, number):
            staged.add(position)
            continue
        now.add(position)
        waiting.extend(arguments(depths.body[position]))
    return now, staged


def _place_outer(depths: PassDepths) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Outer values: as soon as they are there, but what only the ends of loops use waits until then."""
    slots: dict[int, int] = {}  # the loop after which a value is evaluated; -1 is before all
    needed: dict[int, int] = {}  # the earliest slot that uses a value
    for position in range(len(depths.body) - 1, -1, -1):
        value = depths.body[position]
        if not depths.is_element[position] and not depths.is_leaf(position) and not isinstance(value, Reduce):
            slots[position] = _slot(depths, position, needed.get(position))
        # What an element value or a reduction uses must be there before its loop begins.
        use = slots.get(position, depths.depth[position] - 1 if not isinstance(value, Reduce) else -1)
        for argument in arguments(value):
            needed[argument] = min(needed.get(argument, use), use)
    ordered = sorted(slots)
    then = tuple(
        tuple(position for position in ordered if slots[position] == number)
        for number in range(depths.n_passes)
    )
    return tuple(position for position in ordered if slots[position] == -1), then


def _slot(depths: PassDepths, position: int, needed: int | None) -> int:
    if depths.depth[position] > 0:
        return depths.depth[position] - 1
    if isinstance(depths.body[position], Store):
        return depths.n_passes - 1
    return -1 if needed is None else needed
