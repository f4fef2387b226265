"""Sums of which only the inverse is used (C++): a softmax multiplies its row by it; divisions take as long as exp.

That is as exact as a division: the inverse of a sum in double is rounded once, as the sum itself would be. It must be
known to be neither infinite nor denormal.
"""

from __future__ import annotations

import torch

from longhand.lower.ir import Pointwise, PointwiseOp, Reduce, ReduceOp, Value, arguments, domains


def inverted_sums(body: tuple[Value, ...], cols: frozenset[str]) -> frozenset[int]:
    """Positions of the sums over a row that the row's elements are divided by, and that nothing else uses.

    Args:
        body: Of a kernel that walks rows in loops.
        cols: The axes along a row.
    """
    varying = domains(body)
    return frozenset(
        position
        for position in range(len(body))
        if _is_softmax_sum(position, body)
        and all(
            varying[user] & cols and _divides_by(value, position)
            for user, value in enumerate(body)
            if position in arguments(value)
        )
    )


def _is_softmax_sum(position: int, body: tuple[Value, ...]) -> bool:
    """Whether a value is the sum of exp(x - max(x)), which lies between 1 and the number of elements."""
    total = body[position]
    if not isinstance(total, Reduce) or total.op is not ReduceOp.SUM or total.dtype is not torch.float32:
        return False
    power = body[total.arg]
    if not isinstance(power, Pointwise) or power.op is not PointwiseOp.EXP:
        return False
    shifted = body[power.args[0]]
    if not isinstance(shifted, Pointwise) or shifted.op is not PointwiseOp.SUB:
        return False
    largest = body[shifted.args[1]]
    is_max = isinstance(largest, Reduce) and largest.op is ReduceOp.MAX
    return is_max and largest.arg == shifted.args[0]  # type: ignore[union-attr]


def _divides_by(value: Value, position: int) -> bool:
    return isinstance(value, Pointwise) and value.op is PointwiseOp.DIV and value.args[0] != position
