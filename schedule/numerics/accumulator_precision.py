"""Which sums are kept in double: those whose rounding shows in what is stored.

Eager PyTorch adds pairwise; a sum that a SIMD loop adds in float, with its last elements one by one, is farther from
exact, and a mean, a norm or a softmax takes that over. A logarithm damps it, and what is rounded to 16 bits hides it:
there the sum stays float, which takes less time.

Whether a double stays one in what is made of the sum depends on where that is computed: a value with a line of its own
is a float, and so is what is computed for each element.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

import torch

from longhand.lower.ir import Pointwise, PointwiseOp, Reduce, ReduceOp, Store, Value, arguments

# What is written for double as for float.
_ARITHMETIC = frozenset(
    {
        *(PointwiseOp.ADD, PointwiseOp.SUB, PointwiseOp.MUL, PointwiseOp.DIV, PointwiseOp.NEG),
        *(PointwiseOp.SQRT, PointwiseOp.RSQRT),
    }
)
_DAMPING = frozenset({PointwiseOp.LOG, PointwiseOp.LOG2})


def sums_in_double(body: tuple[Value, ...], memory: Mapping[str, torch.dtype]) -> frozenset[int]:
    """Positions of the Reduces SUM of float32 that are accumulated in double (CPU).

    Args:
        body: A kernel's.
        memory: The dtype of each buffer that it names.
    """
    return frozenset(
        position
        for position, value in enumerate(body)
        if isinstance(value, Reduce)
        and value.op is ReduceOp.SUM
        and value.dtype is torch.float32
        and _shows(position, body, memory)
    )


def _shows(position: int, body: tuple[Value, ...], memory: Mapping[str, torch.dtype]) -> bool:
    """Whether the rounding of a value reaches a store of full precision undamped."""
    reached = {position}
    for user, value in enumerate(body):
        if reached.isdisjoint(arguments(value)):
            continue
        if isinstance(value, Store):
            if memory[value.buffer] is torch.float32:
                return True
        elif not (isinstance(value, Pointwise) and value.op in _DAMPING):
            reached.add(user)
    return False


class SumType(enum.Enum):
    """What a sum is accumulated in."""

    FLOAT = enum.auto()
    DOUBLE = enum.auto()
    DOUBLE_THEN_FLOAT = enum.auto()  # rounded to a float of its own for those who use it


def sum_type(
    position: int, body: tuple[Value, ...], of_elements: Collection[int], lines: Collection[int]
) -> SumType:
    """How a Reduce that `sums_in_double` names is accumulated.

    Args:
        position: Of the Reduce.
        body: The kernel's, as it is printed.
        of_elements: Values that are computed for each element of a row.
        lines: Values that are declared as a float on a line of their own.
    """
    inline = {position}  # the sum, and what is written inside the expressions that use it
    for user, value in enumerate(body):
        if inline.isdisjoint(arguments(value)):
            continue
        is_arithmetic = isinstance(value, Store) or (
            isinstance(value, Pointwise) and value.op in _ARITHMETIC and value.dtype is torch.float32
        )
        if user in of_elements or not is_arithmetic:
            return SumType.DOUBLE_THEN_FLOAT
        if user not in lines:
            inline.add(user)
    return SumType.DOUBLE
