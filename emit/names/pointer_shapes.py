"""The shapes of what a kernel is given, in words, for the comments on its pointers: ``(n_rows, n_cols)``."""

from __future__ import annotations

from longhand.emit.names.unit_names import KernelNames
from longhand.emit.text.reference_joins import conditions_of, limit_along
from longhand.lower.ir import Load, Pointwise, PointwiseOp, Scalar
from longhand.schedule.plan import KernelPlan, Pointer, SizeOf


def shape_words(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> tuple[str, ...] | None:
    """A word for each dimension; none for a single element, None where no shape says what is accessed."""
    if pointer.dims is None:
        return _table_shape(plan, names, pointer.name)
    filled = _filled(plan, pointer.name)
    return tuple(
        names.scalars[filled[axis]] if axis in filled else names.axes[axis].size for axis in pointer.dims
    )


def is_part(plan: KernelPlan, pointer: Pointer) -> bool:
    """Whether the shape is that of a part of the tensor, which begins at an offset."""
    return any(parameter.pointer == pointer.name and parameter.axis is None for parameter in plan.ints)


def _filled(plan: KernelPlan, pointer: str) -> dict[str, int]:
    """The axes along which a tensor ends before the kernel does, and the scalar that says where: it is padded."""
    found: list[dict[str, int]] = []
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load) or value.buffer != pointer:
            continue
        conditions = () if value.mask is None else tuple(conditions_of(plan, value.mask))
        limits = [limit_along(plan, condition, PointwiseOp.LT) for condition in conditions]
        if plan.addresses[position].offset or any(limit is None for limit in limits):
            return {}
        found.append(dict(limit for limit in limits if limit is not None))
    return found[0] if found and all(one == found[0] for one in found) else {}


def _table_shape(plan: KernelPlan, names: KernelNames, pointer: str) -> tuple[str, str] | None:
    """``("table_size", "n_cols")`` for a pointer that is read a row at a time, at rows that are data."""
    found: set[tuple[str, str]] = set()
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load) or value.buffer != pointer:
            continue
        address = plan.addresses[position]
        if len(address.axes) != 1 or len(address.values) != 1 or address.offset:
            return None
        (axis, step), (row, product) = address.axes[0], address.values[0]
        limit = _limit(plan, row)
        if step != () or product != (SizeOf(axis),) or limit is None:
            return None
        found.add((names.scalars[limit], names.axes[axis].size))
    return found.pop() if len(found) == 1 else None


def _limit(plan: KernelPlan, row: int) -> int | None:
    """The scalar that a looked-up position must be below."""
    for value in plan.body:
        if isinstance(value, Pointwise) and value.op is PointwiseOp.LT and value.args[0] == row:
            limit = value.args[1]
            if isinstance(plan.body[limit], Scalar):
                return limit
    return None
