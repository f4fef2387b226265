"""The shape of each tensor as a kernel walks it, and how much of the tensor that is: what its parameter's comment says.

A unit's runtime reads these comments, and compares each tensor that a kernel is given with the numbers that come with
it. So they must be right for every launch of the kernel: `Region` is what all of them have in common.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from longhand.lower.ir import (
    Buffer,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Scalar,
    Size,
    Store,
    arguments,
)
from longhand.schedule.kernels.address_terms import ParameterRef, Product, SizeOf, value_of
from longhand.schedule.kernels.kernel_plan import Access, KernelPlan, Pointer, Region
from longhand.schedule.sizes import guess, product, same


def find_regions(
    plan: KernelPlan,
    sizes: Sequence[Size],
    scalars: Sequence[Size | float],
    buffers: Mapping[str, Buffer],
) -> KernelPlan:
    """The plan with the regions of its pointers in one launch: of these sizes of its axes, and these scalars."""
    known: dict[str | int, Size | float] = dict(zip((axis.name for axis in plan.axes), sizes, strict=True))
    known |= dict(zip((scalar.position for scalar in plan.scalars), scalars, strict=True))
    pointers = tuple(
        (
            pointer
            if pointer.scratch
            else dataclasses.replace(pointer, region=_region(plan, pointer, buffers[pointer.name], known))
        )
        for pointer in plan.pointers
    )
    return dataclasses.replace(plan, pointers=pointers)


def _region(
    plan: KernelPlan, pointer: Pointer, buffer: Buffer, sizes: Mapping[str | int, Size | float]
) -> Region:
    shape = tensor_shape(plan, pointer)
    if shape is None or any(one.pointer == pointer.name and one.axis is None for one in plan.ints):
        return Region.PART
    walked = [sizes[dim] for dim in shape]
    is_all = same(product(size for size in walked if not isinstance(size, float)), product(buffer.shape))
    if any(one.pointer == pointer.name for one in plan.ints):
        return Region.STRIDED if is_all else Region.PART
    if is_all:
        return Region.WHOLE if buffer.is_contiguous else Region.IN_MEMORY
    # What is read behind a condition may end before the kernel does.
    is_walked = all(
        getattr(value, "mask", None) is None or shape != pointer.dims
        for value in plan.body
        if isinstance(value, Load | Store) and value.buffer == pointer.name
    )
    return Region.FIRST if buffer.is_contiguous and is_walked else Region.PART


def tensor_shape(plan: KernelPlan, pointer: Pointer) -> tuple[str | int, ...] | None:
    """The axis, or the scalar by its position, that is the size of each dimension; none for a single element.

    None where no shape says what is accessed.
    """
    if pointer.dims is None:
        return _table_shape(plan, pointer.name)
    filled = _filled(plan, pointer.name)
    return tuple(filled.get(axis, axis) for axis in pointer.dims)


def order_among_results(plan: KernelPlan, pointer: Pointer) -> tuple[str, ...]:
    """The axes of what is read, in the order in which the kernel's results have them in memory, where they have all.

    Its own where it only lies so in memory: nobody sees that.
    """
    dims = pointer.dims or ()
    if pointer.region is Region.IN_MEMORY:
        return dims
    written = (one for one in plan.pointers if one.access is not Access.READ and not one.scratch)
    result = max(written, key=lambda one: len(one.dims or ()), default=pointer)
    return result.dims or () if {*dims} == {*(result.dims or ())} else dims


@dataclasses.dataclass(frozen=True)
class PartTaken:
    """What a kernel takes of a tensor that it does not take as it lies.

    Attributes:
        n_places: From how many places it walks the tensor's shape: 2 for a gate and what it is a gate of.
        begins_at: The argument that says where that is, if there is one place and it is not the tensor's begin.
        is_strided: Whether strides that are arguments say how far apart elements lie.
        is_conditional: Whether some of the shape's elements may not be there, and are not read.
    """

    n_places: int
    begins_at: str | None
    is_strided: bool
    is_conditional: bool


def part_taken(plan: KernelPlan, pointer: Pointer) -> PartTaken:
    """How a kernel walks a pointer of which a shape alone does not say it."""
    accesses = [
        (position, value)
        for position, value in enumerate(plan.body)
        if isinstance(value, Load | Store) and value.buffer == pointer.name
    ]
    begins = {frozenset(plan.addresses[position].offset) for position, _ in accesses}
    own = {one.name for one in plan.ints if one.pointer == pointer.name and one.axis is None}
    begin = next(iter(begins)) if len(begins) == 1 else frozenset()
    arguments = [name for name in own if begin == {(ParameterRef(name),)}]
    is_told = tensor_shape(plan, pointer) != pointer.dims
    loads = [value for _, value in accesses if isinstance(value, Load)]
    return PartTaken(
        len(begins),
        arguments[0] if arguments else None,
        any(one.pointer == pointer.name and one.axis is not None for one in plan.ints),
        bool(loads) and not is_told and all(load.mask is not None for load in loads),
    )


def dims_in_memory(
    plan: KernelPlan, pointer: Pointer, sizes: Sequence[Size], ints: Sequence[Size]
) -> tuple[str, ...]:
    """The axes along which a tensor lies in one launch, outermost first: strides that are arguments may say so."""
    dims = pointer.dims or ()
    if not any(one.pointer == pointer.name and one.axis is not None for one in plan.ints):
        return dims
    of_axes = dict(zip((axis.name for axis in plan.axes), sizes, strict=True))
    of_ints = dict(zip((one.name for one in plan.ints), ints, strict=True))
    steps: dict[str, int] = {}
    for position, value in enumerate(plan.body):
        if isinstance(value, Load | Store) and value.buffer == pointer.name:
            for axis, factors in plan.addresses[position].axes:
                step = value_of(factors, of_axes, of_ints)
                steps |= {} if step is None else {axis: abs(guess(step, {}))}
    is_told = steps.keys() == {*dims}
    return tuple(sorted(dims, key=lambda axis: -steps[axis])) if is_told else dims


def _filled(plan: KernelPlan, pointer: str) -> dict[str, int]:
    """The axes along which a tensor ends before the kernel does, and the scalar that says where: it is padded."""
    all_ends: list[dict[str, int]] = []
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load) or value.buffer != pointer:
            continue
        conditions = () if value.mask is None else tuple(conditions_of(plan, value.mask))
        limits = {limit_along(plan, condition, PointwiseOp.LT) for condition in conditions}
        if plan.addresses[position].offset or any(limit is None for limit in limits):
            return {}
        ends = dict(limit for limit in limits if limit is not None)
        if len(ends) < len(limits):
            return {}  # of two limits of one axis nobody knows which is the nearer
        all_ends.append(ends)
    return all_ends[0] if all_ends and all(one == all_ends[0] for one in all_ends) else {}


def _table_shape(plan: KernelPlan, pointer: str) -> tuple[str | int, ...] | None:
    """The sizes of a pointer that is read, written or added to at rows that are data: the scalar that is the number of
    rows, between the axes that the rows are in and those that are a row's.
    """
    shapes: set[tuple[str | int, ...]] = set()
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load | Store) or value.buffer != pointer:
            continue
        address = plan.addresses[position]
        if len(address.values) != 1 or address.offset:
            return None
        ((row, row_step),) = address.values
        limit = _limit(plan, _looked_up(plan, row)) or _counted_from(plan, row)
        inner = _inside_row(plan, dict(address.axes), row_step)
        if inner is None or limit is None:
            return None
        steps = dict(address.axes)
        outer = [axis.name for axis in plan.axes if axis.name in steps and axis.name not in inner]
        if len(outer) > 1 or (outer and not isinstance(value, Store)):
            return None  # in which order their dimensions are the steps do not say
        shapes.add((*outer, limit, *inner))
    return shapes.pop() if len(shapes) == 1 else None


def _inside_row(plan: KernelPlan, steps: Mapping[str, Product], row_step: Product) -> tuple[str, ...] | None:
    """The axes that a row consists of, outermost first; None if it has gaps, or no axes."""
    inner: list[str] = []
    expected: Product = ()
    for axis in reversed(plan.axes):
        if expected == row_step:
            break
        if steps.get(axis.name) != expected:
            return None
        inner.insert(0, axis.name)
        expected = (SizeOf(axis.name), *expected)
    return tuple(inner) if inner and expected == row_step else None


def _looked_up(plan: KernelPlan, row: int) -> int:
    """The position that was looked up, of one that is another where that is out of range."""
    value = plan.body[row]
    if isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE:
        return value.args[1]
    return row


def _limit(plan: KernelPlan, row: int) -> int | None:
    """The scalar that a looked-up position must be below; of two nobody knows which is the nearer."""
    limits = _limits(plan, row)
    return limits.pop() if len(limits) == 1 else None


def _limits(plan: KernelPlan, row: int) -> set[int]:
    """The scalars that a position is compared with, from above."""
    return {
        value.args[1]
        for value in plan.body
        if isinstance(value, Pointwise) and value.op is PointwiseOp.LT and value.args[0] == row
        if isinstance(plan.body[value.args[1]], Scalar)
    }


def _counted_from(plan: KernelPlan, row: int) -> int | None:
    """The scalar that a position below zero is counted from: ``row < 0 ? row + n_rows : row``, the number of rows."""
    value = plan.body[row]
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.WHERE:
        return None
    wrapped = plan.body[value.args[1]]
    if not isinstance(wrapped, Pointwise) or wrapped.op is not PointwiseOp.ADD:
        return None
    if value.args[2] not in wrapped.args:
        return None
    (other,) = [one for one in wrapped.args if one != value.args[2]] or [value.args[2]]
    # A table that is padded is read where the position is below another limit, too: of how many rows is open then.
    is_only = all(limit == other for limit in _limits(plan, row))
    return other if is_only and isinstance(plan.body[other], Scalar) else None


def conditions_of(plan: KernelPlan, position: int) -> Iterator[int]:
    """The conditions that a mask is the conjunction of."""
    value = plan.body[position]
    if isinstance(value, Pointwise) and value.op is PointwiseOp.LOGICAL_AND:
        for argument in value.args:
            yield from conditions_of(plan, argument)
    else:
        yield position


def limit_along(plan: KernelPlan, position: int, op: PointwiseOp) -> tuple[str, int] | None:
    """(axis, position of the scalar) of a comparison of where we are along one axis."""
    value = plan.body[position]
    if not isinstance(value, Pointwise) or value.op is not op:
        return None
    at, limit = (plan.body[argument] for argument in value.args)
    if not isinstance(at, IndexExpression) or not isinstance(limit, Scalar):
        return None
    address = plan.addresses[value.args[0]]
    if len(address.axes) != 1 or address.axes[0][1] != () or address.offset or address.values:
        return None
    return address.axes[0][0], value.args[1]


def told_by_data(plan: KernelPlan, pointer: Pointer) -> str | None:
    """The tensor that holds at which positions all that is accessed of another lies; None where none or several do."""
    sources: set[str | None] = set()
    for position, value in enumerate(plan.body):
        if isinstance(value, Load | Store) and value.buffer == pointer.name:
            read = _read_for(plan, [row for row, _ in plan.addresses[position].values])
            sources.add(read.pop() if len(read) == 1 else None)
    return sources.pop() if len(sources) == 1 else None


def walked_along(plan: KernelPlan, pointer: Pointer) -> tuple[str, ...]:
    """The axes, two or more, along which what is accessed of a tensor lies, the same for each access.

    None where data say that, or where it is one alone.
    """
    walks: set[tuple[str, ...]] = set()
    for position, value in enumerate(plan.body):
        if isinstance(value, Load | Store) and value.buffer == pointer.name:
            address = plan.addresses[position]
            walks.add(() if address.values else tuple(axis for axis, _ in address.axes))
    along = walks.pop() if len(walks) == 1 else ()
    return along if len(along) > 1 else ()


def is_accessed_in_part(plan: KernelPlan, pointer: Pointer) -> bool:
    """Whether every access of a tensor has a condition: that of a piece of what is joined."""
    accesses = (
        value for value in plan.body if isinstance(value, Load | Store) and value.buffer == pointer.name
    )
    return all(value.mask is not None for value in accesses)


def _read_for(plan: KernelPlan, positions: Iterable[int]) -> set[str]:
    """The tensors that some values are computed from."""
    waiting, seen = list(positions), set[int]()
    while waiting:
        position = waiting.pop()
        if position not in seen:
            seen.add(position)
            waiting += arguments(plan.body[position])
    return {value.buffer for value in map(plan.body.__getitem__, seen) if isinstance(value, Load)}


def row_stride(plan: KernelPlan, pointer: Pointer) -> str | None:
    """The argument that tells how far apart rows are in which all that is accessed lies, one element beside the last.

    None where elements lie otherwise, or where a shape says it.
    """
    own = [one.name for one in plan.ints if one.pointer == pointer.name and one.axis is not None]
    places = [
        plan.addresses[position]
        for position, value in enumerate(plan.body)
        if isinstance(value, Load | Store) and value.buffer == pointer.name
    ]
    if len(own) != 1 or any(place.values or place.reversed for place in places):
        return None
    steps = {step for place in places for _, step in place.axes}
    by_stride = {step for step in steps if ParameterRef(own[0]) in step}
    return own[0] if by_stride and steps <= by_stride | {()} else None
