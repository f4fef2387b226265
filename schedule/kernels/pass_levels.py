"""The fewest loops over a row that compute a reducing body, and what each of them does.

A later loop computes again what it needs, or reads back what an earlier one put aside (schedule/kernels/staging.py).
"""

from __future__ import annotations

import dataclasses

from longhand.lower.ir import Load, Reduce, Store, arguments
from longhand.schedule.kernels.flow import Flow
from longhand.schedule.kernels.kernel_plan import OnlineSoftmax, Pass, Stage
from longhand.schedule.kernels.staging import Stager


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


def find_passes(flow: Flow, stager: Stager) -> Passes:
    """Distribute a body over its loops. `stager` decides what is kept from one to the next."""
    stores = [_element_stores(flow, number) for number in range(flow.n_passes)]
    reductions = [_reductions(flow, number) for number in range(flow.n_passes)]
    computed: list[set[int]] = []
    from_stage: list[set[int]] = []
    for number in range(flow.n_passes):
        roots = [root for store in stores[number] for root in flow.roots(store)]
        roots += [argument for total in _sums(flow, number) for argument in arguments(flow.body[total])]
        for entry in reductions[number]:
            reduce = flow.body[entry.max if isinstance(entry, OnlineSoftmax) else entry]
            assert isinstance(reduce, Reduce)
            roots.append(reduce.arg)
        now, staged = _cone(flow, roots, number, computed, stager)
        computed.append(now)
        from_stage.append(staged)
    before, then = _place_outer(flow)
    passes = tuple(
        Pass(
            compute=tuple(sorted(computed[number])),
            from_stage=tuple(sorted(from_stage[number])),
            reductions=reductions[number],
            stages=tuple(Stage(kept.position, kept.store) for kept in stager.kept if kept.written == number),
            stores=stores[number],
            then=then[number],
            sums=_sums(flow, number),
        )
        for number in range(flow.n_passes)
    )
    return Passes(before, passes)


def store_pass(flow: Flow, store: int) -> int:
    """The loop in which an element store is done: as early as its value is there, but never before a loop that reads
    the same memory."""
    value = flow.body[store]
    assert isinstance(value, Store)
    is_read = any(isinstance(other, Load) and other.buffer == value.buffer for other in flow.body)
    return flow.n_passes - 1 if is_read else flow.depth[store]


def _element_stores(flow: Flow, number: int) -> tuple[int, ...]:
    return tuple(
        position
        for position, value in enumerate(flow.body)
        if isinstance(value, Store)
        and flow.is_element[position]
        and value.value not in flow.column_sums
        and store_pass(flow, position) == number
    )


def _sums(flow: Flow, number: int) -> tuple[int, ...]:
    """The sums across the loops to which a loop adds: as early as there is something to add."""
    return tuple(position for position in sorted(flow.column_sums) if flow.depth[position] == number)


def _reductions(flow: Flow, number: int) -> tuple[int | OnlineSoftmax, ...]:
    pairs = {pair.max: pair for pair in flow.online}
    sums = {pair.sum for pair in flow.online}
    return tuple(
        pairs.get(position, position)
        for position, value in enumerate(flow.body)
        if isinstance(value, Reduce)
        and flow.depth[position] == number + 1
        and position not in sums | flow.column_sums
    )


def _cone(
    flow: Flow, roots: list[int], number: int, computed: list[set[int]], stager: Stager
) -> tuple[set[int], set[int]]:
    """The element values that a loop computes, and those that it reads back."""
    now: set[int] = set()
    staged: set[int] = set()
    waiting = sorted(set(roots), reverse=True)
    while waiting:
        position = waiting.pop()
        if position in now or position in staged or not flow.is_element[position]:
            continue
        if flow.is_leaf(position) or isinstance(flow.body[position], Reduce):
            continue
        earlier = next((count for count, done in enumerate(computed) if position in done), None)
        if earlier is not None and stager.keep(position, earlier, number):
            staged.add(position)
            continue
        now.add(position)
        waiting.extend(arguments(flow.body[position]))
    return now, staged


def _place_outer(flow: Flow) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Outer values: as soon as they are there, but what only the ends of loops use waits until then."""
    slots: dict[int, int] = {}  # the loop after which a value is evaluated; -1 is before all
    needed: dict[int, int] = {}  # the earliest slot that uses a value
    for position in range(len(flow.body) - 1, -1, -1):
        value = flow.body[position]
        if not flow.is_element[position] and not flow.is_leaf(position) and not isinstance(value, Reduce):
            slots[position] = _slot(flow, position, needed.get(position))
        # What an element value or a reduction uses must be there before its loop begins.
        use = slots.get(position, flow.depth[position] - 1 if not isinstance(value, Reduce) else -1)
        for argument in arguments(value):
            needed[argument] = min(needed.get(argument, use), use)
    ordered = sorted(slots)
    then = tuple(
        tuple(position for position in ordered if slots[position] == number)
        for number in range(flow.n_passes)
    )
    return tuple(position for position in ordered if slots[position] == -1), then


def _slot(flow: Flow, position: int, needed: int | None) -> int:
    if flow.depth[position] > 0:
        return flow.depth[position] - 1
    if isinstance(flow.body[position], Store):
        return flow.n_passes - 1
    return -1 if needed is None else needed
