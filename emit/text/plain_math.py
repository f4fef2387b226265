"""What people write otherwise than a kernel's body does: means, indices, guards, and words that say nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from longhand.lower.ir import (
    PRIMITIVES,
    REDUCTIONS,
    Constant,
    Extent,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Value,
)
from longhand.schedule.named_plan import counts_from_the_end

_NOUNS = frozenset(
    word
    for table in (PRIMITIVES, REDUCTIONS)
    for op, entry in table.items()
    for word in (entry.noun or op.value,)
)


def says_only_the_operation(word: str) -> bool:
    """Whether a value's word is its operation's, with or without that of something beside it: ``weight_product``."""
    return word in _NOUNS or word.rpartition("_")[2] in ("product", "total", "difference", "ratio", "chosen")


def is_mean(value: Pointwise, body: Sequence[Value]) -> bool:
    """``sum(x) / n``, where n is how many are summed."""
    total, count = (body[at] for at in value.args)
    return isinstance(total, Reduce) and total.op is ReduceOp.SUM and isinstance(count, Extent)


def rectified(value: Pointwise, body: Sequence[Value]) -> int | None:
    """What ``maximum(x, 0.0)`` rectifies."""
    for one, other in (value.args, value.args[::-1]):
        number = body[other]
        if isinstance(number, Constant) and number.value == 0 and number.dtype.is_floating_point:
            return one
    return None


def plain_choice(value: Pointwise, body: Sequence[Value]) -> int | None:
    """The branch of a ``where`` that a formula means: an index that may be negative, an element of a table."""
    if value.op is not PointwiseOp.WHERE:
        return None
    condition, other = body[value.args[0]], body[value.args[2]]
    if counts_from_the_end(value, body):
        return value.args[2]
    is_guard = isinstance(other, Constant) and math.isnan(other.value) and _is_in_table(condition, body)
    return value.args[1] if is_guard else None


def wrapped_place(value: Pointwise, body: Sequence[Value]) -> tuple[int, int] | None:
    """``where(col < half, col, col - half)`` is ``col % half``: the place and the half."""
    condition, chosen, other = value.args
    less, rest = body[condition], body[other]
    is_less = isinstance(less, Pointwise) and less.op is PointwiseOp.LT and less.args[0] == chosen
    if not is_less or not isinstance(less, Pointwise):
        return None
    limit = body[less.args[1]]
    is_rest = (
        isinstance(rest, Pointwise) and rest.op is PointwiseOp.SUB and rest.args == (chosen, less.args[1])
    )
    return (chosen, less.args[1]) if is_rest and isinstance(limit, Scalar) else None


def _is_in_table(condition: Value, body: Sequence[Value]) -> bool:
    """``(index >= 0) & (index < table_size)``"""
    if not isinstance(condition, Pointwise) or condition.op is not PointwiseOp.LOGICAL_AND:
        return False
    sides = [body[at] for at in condition.args]
    ops = [side.op if isinstance(side, Pointwise) else None for side in sides]
    indices = {side.args[0] for side in sides if isinstance(side, Pointwise)}
    return ops == [PointwiseOp.GE, PointwiseOp.LT] and len(indices) == 1
