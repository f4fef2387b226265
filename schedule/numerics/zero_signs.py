"""Who can tell -0.0 from 0.0.

``x + 0.0``, a mask of zeros that is added to scores, is x for every x but -0.0, of which it makes 0.0. So it goes where
a value's only readers are blind to the sign of a zero (an exponential, a cosine, a comparison) or hand it on to such (a
sum, a product, a maximum). What is stored may be asked for its sign by anybody.

An angle, a divisor and a sign say it: below them, how a value's sign is changed counts.
"""

from __future__ import annotations

import torch

from longhand.lower.ir import Constant, Pointwise, PointwiseOp, Reduce, ReduceOp, Value, arguments
from longhand.schedule.bodies import rewrite

Op = PointwiseOp
_BLIND = frozenset(
    {
        *(Op.EXP, Op.EXP2, Op.COS, Op.COSH, Op.ABS, Op.SIGMOID, Op.LOG, Op.LOG2, Op.LOG10, Op.ERFC),
        *(Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.ISNAN, Op.ISINF),
    }
)
_HAND_ON = frozenset(
    {
        *(Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.MAXIMUM, Op.MINIMUM, Op.WHERE),
        *(ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN),
    }
)
# What a zero's sign decides, by the arguments that it is the sign of.
_TELLERS = {
    **dict.fromkeys((Op.RECIPROCAL, Op.RSQRT, Op.SIGNBIT), (0,)),
    **dict.fromkeys((Op.DIV, Op.COPYSIGN), (1,)),
    **dict.fromkeys((Op.ATAN2, Op.POW), (0, 1)),
}


def told_signs(body: tuple[Value, ...]) -> frozenset[int]:
    """The positions of floats where -0.0 leads to another result than 0.0, by an operation of the same body."""
    waiting = [
        value.args[which]
        for value in body
        if isinstance(value, Pointwise)
        for which in _TELLERS.get(value.op, ())
    ]
    told: set[int] = set()
    while waiting:
        position = waiting.pop()
        value = body[position]
        if position in told or not getattr(value, "dtype", torch.bool).is_floating_point:
            continue
        told.add(position)
        if not (isinstance(value, Pointwise) and (value.op in _BLIND or _is_no_zero(value, body))):
            waiting += arguments(value)
    return frozenset(told)


def _is_no_zero(value: Pointwise, body: tuple[Value, ...]) -> bool:
    """Whether it adds a number to something: a zero that it gives is 0.0 whatever the sign of what it is given."""
    parts = [body[arg] for arg in value.args]
    return value.op in (Op.ADD, Op.SUB) and any(isinstance(one, Constant) and one.value != 0 for one in parts)


def without_added_zeros(body: tuple[Value, ...]) -> tuple[Value, ...]:
    """The body with such sums read past. Values that nothing uses any more stay in it."""
    added = {
        position: kept for position, value in enumerate(body) if (kept := _kept(value, body)) is not None
    }
    if not added:
        return body
    readers: list[list[int]] = [[] for _ in body]
    for position, value in enumerate(body):
        for argument in arguments(value):
            readers[argument].append(position)
    stands_for = list(range(len(body)))
    for position, kept in added.items():
        if _is_unseen(position, readers, body):
            stands_for[position] = stands_for[kept]
    return body if stands_for == list(range(len(body))) else tuple(rewrite(v, stands_for) for v in body)


def _kept(value: Value, body: tuple[Value, ...]) -> int | None:
    """What a zero is added to."""
    if not isinstance(value, Pointwise) or value.op is not Op.ADD or not value.dtype.is_floating_point:
        return None
    for kept, other in (value.args, value.args[::-1]):
        zero = body[other]
        if (
            isinstance(zero, Constant)
            and zero.value == 0
            and getattr(body[kept], "dtype", None) is value.dtype
        ):
            return kept
    return None


def _is_unseen(position: int, readers: list[list[int]], body: tuple[Value, ...]) -> bool:
    """Whether the sign of a zero changes nothing that is stored."""
    waiting, seen = [position], {position}
    while waiting:
        for reader in readers[waiting.pop()]:
            value = body[reader]
            op = value.op if isinstance(value, Pointwise | Reduce) else None
            if op in _BLIND:
                continue
            if op not in _HAND_ON:
                return False
            if reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return bool(readers[position])
