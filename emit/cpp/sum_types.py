"""The variable of a sum in C++: a float, a double, or a double that is rounded for those who use it."""

from __future__ import annotations

import enum
from collections.abc import Collection

import torch

from longhand.lower.ir import Pointwise, PointwiseOp, Store, arguments
from longhand.schedule.plan import KernelPlan

# What is written for double as for float.
_ARITHMETIC = frozenset(
    {
        *(PointwiseOp.ADD, PointwiseOp.SUB, PointwiseOp.MUL, PointwiseOp.DIV, PointwiseOp.NEG),
        *(PointwiseOp.SQRT, PointwiseOp.RSQRT),
    }
)


class SumType(enum.Enum):
    """What a sum is accumulated in."""

    FLOAT = enum.auto()
    DOUBLE = enum.auto()
    DOUBLE_THEN_FLOAT = enum.auto()  # rounded to a float of its own for those who use it


def sum_type(
    position: int, plan: KernelPlan, of_elements: Collection[int], has_line: Collection[int]
) -> SumType:
    """How a Reduce of `plan` accumulates.

    Args:
        position: Of the Reduce.
        plan: The kernel: its numerics say which sums are wide.
        of_elements: Values that are computed for each element of a row.
        has_line: Values that are declared as a float on a line of their own.
    """
    if position not in plan.numerics.wide_sums:
        return SumType.FLOAT
    inline = {position}  # the sum, and what is written inside the expressions that use it
    for user, value in enumerate(plan.body):
        if inline.isdisjoint(arguments(value)):
            continue
        is_arithmetic = isinstance(value, Store) or (
            isinstance(value, Pointwise) and value.op in _ARITHMETIC and value.dtype is torch.float32
        )
        if user in of_elements or not is_arithmetic:
            return SumType.DOUBLE_THEN_FLOAT
        if user not in has_line:
            inline.add(user)
    return SumType.DOUBLE
