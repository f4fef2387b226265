"""Whether a kernel may be given one memory for a tensor that it reads and one that it writes (work in place).

It may if every element is read before it is written, by the very lanes that write it: the same address, and no loop
over the row that reads after one that writes (a staged value written into the output row counts as a write). Since a
load may be printed inside the statement that uses it, no later store may depend on what was there.

On a GPU several warps hold the same elements where a block has fewer than the program has threads (rows of 16, eight
at a time). One of them stores its copy; another may be late, and loads what the first has stored. Where every result
is as large as the block that is of no consequence: nobody stores the late copy. But a sum that is stored may be made
of it. So what is added up for a result of its own is not overwritten there, in whatever kernel: how many threads hold
an element follows from sizes of the call and from tunables, which people edit, and a reduction between a load and a
store makes warps wait for each other only where Triton's layout spreads it over warps.
"""

from __future__ import annotations

from longhand.lower.ir import Load, Reduce, Size, Store, arguments
from longhand.schedule.kernels.address_terms import value_of
from longhand.schedule.kernels.kernel_plan import Access, KernelPlan
from longhand.schedule.plan import Launch
from longhand.schedule.sizes import same
from longhand.schedule.targets import TargetFacts


def may_alias(
    plan: KernelPlan, read: str, written: str, facts: TargetFacts, launch: Launch | None = None
) -> bool:
    """Whether the pointer `written` may hold the memory of the pointer `read` in a launch on a target.

    Args:
        plan: The kernel.
        read: A pointer.
        written: Another one.
        facts: The target's.
        launch: Its strides are known; None: in any launch.
    """
    pointers = {pointer.name: pointer for pointer in plan.pointers}
    source, target = pointers[read], pointers[written]
    if source.access is not Access.READ or target.access is not Access.WRITE:
        return False
    if source.scratch or target.scratch or source.dtype != target.dtype:
        return False
    loads = [at for at, value in enumerate(plan.body) if isinstance(value, Load) and value.buffer == read]
    stores = [
        at for at, value in enumerate(plan.body) if isinstance(value, Store) and value.buffer == written
    ]
    if len(stores) != 1 or not loads or plan.addresses[stores[0]].values:
        return False
    store = plan.body[stores[0]]
    if not isinstance(store, Store) or store.mask is not None:
        return False
    if not all(_is_same_place(plan, load, stores[0], launch) for load in loads):
        return False
    if _feeds_later_store(plan, set(loads), stores[0]):
        return False
    if facts.stores_blocks_late and _is_in_a_stored_sum(plan, set(loads), stores[0]):
        return False
    return _last_read(plan, loads) <= _first_write(plan, stores[0])


def _is_same_place(plan: KernelPlan, load: int, store: int, launch: Launch | None) -> bool:
    """Whether a load reads where a store writes: by their addresses, or by the strides that a launch gives."""
    one, other = plan.addresses[load], plan.addresses[store]
    if one == other:
        return True
    if launch is None or launch.others or any(each.offset or each.values for each in (one, other)):
        return False
    sizes = dict(zip((axis.name for axis in plan.axes), launch.sizes, strict=True))
    ints = dict(zip((parameter.name for parameter in plan.ints), launch.ints, strict=True))
    written = dict(other.axes)
    return written.keys() == dict(one.axes).keys() and all(
        _are_same(value_of(product, sizes, ints), value_of(written[axis], sizes, ints))
        for axis, product in one.axes
    )


def _are_same(one: Size | None, other: Size | None) -> bool:
    return one is not None and other is not None and same(one, other)


def _feeds_later_store(plan: KernelPlan, loads: set[int], written: int) -> bool:
    """Whether a store that comes after `written` uses one of the loads other than through a reduction."""
    dependent = set(loads)
    for position, value in enumerate(plan.body):
        if not isinstance(value, Reduce) and dependent & set(arguments(value)):
            if isinstance(value, Store) and position > written:
                return True
            dependent.add(position)
    return False


def _is_in_a_stored_sum(plan: KernelPlan, loads: set[int], written: int) -> bool:
    """Whether a reduction of one of the loads is stored as it is: by address, not over all that `written` goes over."""
    block = {axis for axis, _ in plan.addresses[written].axes}
    dependent, sums = set(loads), set[int]()
    for position, value in enumerate(plan.body):
        given = set(arguments(value))
        is_sum = isinstance(value, Store) and bool(given & sums)
        if is_sum and {axis for axis, _ in plan.addresses[position].axes} != block:
            return True
        if given & dependent:
            dependent.add(position)
        if given & sums or (isinstance(value, Reduce) and given & dependent):
            sums.add(position)
    return False


def _last_read(plan: KernelPlan, loads: list[int]) -> float:
    """When the pointer is read last; loop n happens at time n, what follows it at n + 0.5."""
    times = [-0.5 for load in loads if load in plan.before]
    for number, one in enumerate(plan.passes):
        times += [number for load in loads if load in one.compute]
        times += [number + 0.5 for load in loads if load in one.then]
    return max(times, default=-1.0)


def _first_write(plan: KernelPlan, store: int) -> float:
    for number, one in enumerate(plan.passes):
        if store in one.stores or any(stage.store == store for stage in one.stages):
            return number
        if store in one.then:
            return number + 0.5
    return float(len(plan.passes))
