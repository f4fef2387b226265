"""Which positions are right in 32 bits, which Triton computes them in, though a body's whole numbers have 64."""

from __future__ import annotations

from longhand.lower.ir import (
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Scalar,
    Store,
    Value,
    arguments,
)
from longhand.schedule.kernels.kernel_plan import KernelPlan

# Operations that mean the same on an int32 position as on an int64 one.
_ANY_WIDTH = frozenset(
    {
        *(PointwiseOp.CAST, PointwiseOp.EQ, PointwiseOp.NE),
        *(PointwiseOp.LT, PointwiseOp.LE, PointwiseOp.GT, PointwiseOp.GE),
    }
)


def is_narrow_position(plan: KernelPlan, position: int) -> bool:
    """Whether a value that is a position, or a place made of one, is right in 32 bits for all that reads it."""
    if any(position == at for address in plan.addresses.values() for at, _ in address.values):
        return False
    users = [(at, v) for at, v in enumerate(plan.body) if isinstance(v, Pointwise) and position in v.args]
    return all(user.op in _ANY_WIDTH or _is_place(plan, at) or _is_length(plan, at) for at, user in users)


def _is_place(plan: KernelPlan, at: int) -> bool:
    """Whether a value is a moved position that only addresses read, or another such value."""
    match plan.body[at]:
        case Pointwise(op=PointwiseOp.SUB, args=(_, taken)):
            is_moved = isinstance(plan.body[taken], Scalar)
        case Pointwise(op=PointwiseOp.WHERE):
            is_moved = True
        case _:
            is_moved = False
    users = [(other, value) for other, value in enumerate(plan.body) if at in arguments(value)]
    return (
        is_moved
        and not plan.widths.large
        and bool(users)
        and all(_addresses(value, at) or _is_place(plan, other) for other, value in users)
    )


_BOUNDED = frozenset({PointwiseOp.MAXIMUM, PointwiseOp.MINIMUM})


def _is_length(plan: KernelPlan, at: int) -> bool:
    """Whether a value is a position that is cut at a bound, or how far it is from one to another, for a comparison or
    a cast."""
    value = plan.body[at]
    if not isinstance(value, Pointwise) or plan.widths.large:
        return False
    ends = [plan.body[arg] for arg in value.args]
    if value.op in _BOUNDED:
        is_made = all(isinstance(end, IndexExpression | Scalar) or _is_near(end) for end in ends)
    else:
        is_made = value.op is PointwiseOp.SUB and all(
            isinstance(end, IndexExpression) or (isinstance(end, Pointwise) and end.op in _BOUNDED)
            for end in ends
        )
    users = [(other, user) for other, user in enumerate(plan.body) if at in arguments(user)]
    return (
        is_made
        and bool(users)
        and all(
            isinstance(user, Pointwise) and (user.op in _ANY_WIDTH or _is_length(plan, other))
            for other, user in users
        )
    )


def _is_near(value: Value) -> bool:
    """Whether a value is a bound at the beginning: far from what 32 bits hold."""
    return isinstance(value, Constant) and abs(value.value) <= 1


def _addresses(value: Value, at: int) -> bool:
    """Whether a value is in memory, at a place that another one says, and reads that one for nothing else."""
    if not isinstance(value, Load | Store):
        return False
    return at not in (value.mask, value.value if isinstance(value, Store) else None)
