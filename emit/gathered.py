"""The shape of a table that rows are looked up in, which no single address of a kernel shows."""

from __future__ import annotations

from longhand.emit.names import KernelNames
from longhand.lower.ir import Load, Pointwise, PointwiseOp, Scalar
from longhand.schedule.plan import KernelPlan, SizeOf


def table_shape(plan: KernelPlan, names: KernelNames, pointer: str) -> tuple[str, str] | None:
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
