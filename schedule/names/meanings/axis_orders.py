"""Tensors whose axes come in another order than a kernel's results: what a formula must say of that.

Of one that has all axes of the results a call brings them there, ``x.transpose(1, 2)``; of others, or where values are
summed, the axes stand behind the words: ``scaled_k[batch_head, group, row, col] = k[batch_head, col, row] * scale``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from longhand.lower.ir import Load, Reduce, Store
from longhand.schedule.names.unit_names import KernelNames
from longhand.schedule.plan import Access, KernelPlan, ParameterRef, Pointer, Region, order_among_results


def dims_read(plan: KernelPlan, pointer: Pointer) -> tuple[str, ...]:
    """The axes of what is read, outermost first: of several parts those of the one that has most of them.

    Empty where no order is known.
    """
    if pointer.dims is not None:
        return pointer.dims
    orders = [
        _order_of(plan, position)
        for position, value in enumerate(plan.body)
        if isinstance(value, Load) and value.buffer == pointer.name
    ]
    longest = max(orders, key=len, default=())
    return longest if all(_is_inside(one, longest) for one in orders) else ()


def _order_of(plan: KernelPlan, position: int) -> tuple[str, ...]:
    """The axes of an address; none where two of its strides cannot be compared, or data say where it is."""
    address = plan.addresses[position]
    if address.values:
        return ()
    n_inside = {  # a stride that is an argument is the outermost axis's
        axis: (any(isinstance(factor, ParameterRef) for factor in product), len(product))
        for axis, product in address.axes
    }
    if len({*n_inside.values()}) < len(n_inside) or address.reversed:
        return ()
    return tuple(sorted(n_inside, key=lambda axis: n_inside[axis], reverse=True))


def order_read(plan: KernelPlan, pointer: Pointer) -> tuple[str, ...]:
    """The axes of what is read in the order in which the results have them, where they have all."""
    if pointer.dims is not None:
        return order_among_results(plan, pointer)
    dims, made = dims_read(plan, pointer), _dims_made(plan)
    return made if {*made} == {*dims} else dims


def axes_said(plan: KernelPlan, names: KernelNames) -> Mapping[str, str]:
    """By tensor: ``[batch, row]``, where one comes in another order than the results, and no call says that."""
    made = _dims_made(plan)
    stores = {value.buffer: value for value in plan.body if isinstance(value, Store)}
    pointers = {one.name: one for one in plan.pointers if not one.scratch}
    results = {name: pointers[name].dims or () for name in stores if name in pointers}
    if not made or any(value.is_at_positions for value in stores.values()):
        return {}
    read = {
        name: dims_read(plan, one)
        for name, one in pointers.items()
        if one.access is Access.READ and one.region is not Region.IN_MEMORY
    }
    moved = {
        name: dims
        for name, dims in {**read, **results}.items()
        if not _is_inside([axis for axis in dims if axis in made], made)
    }
    is_called = not any(isinstance(value, Reduce) for value in plan.body)  # x.transpose(1, 2)
    if is_called and all(name in read and {*dims} == {*made} for name, dims in moved.items()):
        return {}
    said = {**results, **moved} if moved else {}
    return {
        name: f"[{', '.join(names.axes[axis].index for axis in dims)}]" for name, dims in said.items() if dims
    }


def reads_moved(plan: KernelPlan, names: KernelNames) -> bool:
    """Whether a formula of values shows that axes come in another order than those of the results."""
    if axes_said(plan, names):
        return True
    read = (one for one in plan.pointers if one.access is Access.READ)
    is_summed = any(isinstance(value, Reduce) for value in plan.body)
    return not is_summed and any(order_read(plan, one) != dims_read(plan, one) for one in read)


def _dims_made(plan: KernelPlan) -> tuple[str, ...]:
    written = [one for one in plan.pointers if one.access is not Access.READ and not one.scratch]
    result = max(written, key=lambda one: len(one.dims or ()), default=None)
    return () if result is None or result.region is Region.IN_MEMORY else result.dims or ()


def _is_inside(some: Iterable[str], all_of: Sequence[str]) -> bool:
    """Whether they come in that order there."""
    rest = iter(all_of)
    return all(one in rest for one in some)
