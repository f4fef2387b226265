"""What plain loops (C++) have of a kernel: which values need a line of their own there, and what sums are kept in."""

from __future__ import annotations

from collections.abc import Collection

from longhand.lower.ir import Load, Pointwise, PointwiseOp, Reduce, Value, arguments
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.numerics.accumulator_precision import SumType, sum_type

# What should not stand in a loop when it does not vary there.
_COSTLY = frozenset(
    {
        PointwiseOp.DIV,
        PointwiseOp.RECIPROCAL,
        PointwiseOp.SQRT,
        PointwiseOp.RSQRT,
        PointwiseOp.EXP,
        PointwiseOp.LOG,
    }
)


def plan_domains(plan: KernelPlan) -> tuple[frozenset[str], ...]:
    """For each value of the body, the plan's axes that it varies over."""
    domains: list[frozenset[str]] = []
    for position, value in enumerate(plan.body):
        axes = frozenset[str]().union(*(domains[argument] for argument in arguments(value)))
        if position in plan.addresses:
            axes |= {axis for axis, _ in plan.addresses[position].axes}
        if isinstance(value, Reduce):
            axes -= frozenset(value.axes)
        domains.append(axes)
    return tuple(domains)


def sum_types(plan: KernelPlan, lines: Collection[int]) -> dict[int, SumType]:
    """What wide sums are accumulated in.

    Chunks of a row are combined in double whatever they accumulate in, and are short: what would be rounded behind
    them is a float at once. So are sums down columns that are rounded, and all that chunks of rows add up.

    Args:
        plan: The kernel.
        lines: Values that have a line of their own.
    """
    is_down, is_split = plan.schedule.is_down_columns, bool(plan.partials)
    looped = {axis.name for axis in (plan.rows if is_down else plan.cols)}
    of_elements = {place for place, axes in enumerate(plan_domains(plan)) if axes & looped}
    wide = sorted(plan.numerics.sums_in_double)
    kinds = {place: sum_type(place, plan.body, of_elements, lines) for place in wide}
    if not (is_down or is_split):
        return kinds
    kept = set() if is_down and is_split else {SumType.DOUBLE}
    return {place: kind for place, kind in kinds.items() if kind in kept}


def needed_lines(plan: KernelPlan) -> tuple[int, ...]:
    """The values that need a line to be right or fast, in the order in which they get one:

    * the argument of a MAX, MIN or ARG reduction, which the loop mentions more than once;
    * a load or a calculation that varies over rows only and is used inside the column loop, so that it is not read or
      calculated again for every element.
    """
    body, axes_of, cols = plan.body, plan_domains(plan), {axis.name for axis in plan.cols}
    of_extremes = [
        value.arg
        for value in body
        if isinstance(value, Reduce) and value.op.value in ("max", "min", "argmax", "argmin")
    ]
    of_rows = [
        argument
        for position, value in enumerate(body)
        if axes_of[position] & cols and not isinstance(value, Reduce)
        for argument in arguments(value)
        if not axes_of[argument] & cols and _costs(body[argument])
    ]
    return tuple(dict.fromkeys([*of_extremes, *of_rows]))


def _costs(value: Value) -> bool:
    return isinstance(value, Load) or (isinstance(value, Pointwise) and value.op in _COSTLY)
