"""Sums of means over as many places as the mean was of: what was divided is multiplied by the same number again.

The derivative of a mean hands each place its share; what sums these over all places, as the derivative of a bias
behind it does, sums the whole: ``sum(d_mean / n) * n`` is ``sum(d_mean)``, and rounded twice less. A product that the
user wrote stays: a sum of the whole may be too large for a float where that of the shares is not.
"""

from __future__ import annotations

import dataclasses

from longhand.lower.ir import Constant, Pointwise, PointwiseOp, Reduce, ReduceOp, Scalar, Value


def without_undone_means(body: tuple[Value, ...]) -> tuple[Value, ...]:
    """The body, with sums of what is no longer divided; the same one where there are none."""
    changed = tuple(_whole(value, body) for value in body)
    return changed if any(new is not old for new, old in zip(changed, body, strict=True)) else body


def _whole(value: Value, body: tuple[Value, ...]) -> Value:
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.MUL:
        return value
    for sums, times in (value.args, value.args[::-1]):
        summed = body[sums]
        # Of one operation both are the sum over more places than its argument has: the user's product is another one.
        if not isinstance(summed, Reduce) or summed.op is not ReduceOp.SUM or summed.origin != value.origin:
            continue
        share = body[summed.arg]
        if not isinstance(share, Pointwise) or share.op is not PointwiseOp.DIV:
            continue
        whole, by = share.args
        if _number(body[by]) is not None and _number(body[by]) == _number(body[times]):
            return dataclasses.replace(summed, arg=whole, name=value.name, origin=value.origin)
    return value


def _number(value: Value) -> str | None:
    """What a size is, one of any call, too; None for what is computed, and for what is no size."""
    if isinstance(value, Scalar):
        return str(value.value)
    if not isinstance(value, Constant):
        return None
    return str(int(value.value)) if float(value.value).is_integer() and value.value > 0 else None
