"""``x + 0.0`` where nobody can tell -0.0 from 0.0: a mask of zeros that is added to scores, the start of a sum.

It is x for every x but -0.0, of which it makes 0.0. So it goes where a value's only readers are blind to the sign of a
zero (an exponential, a cosine, a comparison, a sum over an axis, which starts with 0.0), hand it on to such (a product,
a maximum), or add something: of a sum of two zeros nobody asks the sign, unless something is divided by it.
"""

from __future__ import annotations

from longhand.lower.ir import Constant, Pointwise, PointwiseOp, Reduce, ReduceOp, Value, arguments
from longhand.schedule.bodies import rewrite

Op = PointwiseOp
_SUMS = frozenset({Op.ADD, Op.SUB})
_BLIND = frozenset(
    {
        *(Op.EXP, Op.EXP2, Op.COS, Op.COSH, Op.ABS, Op.SIGMOID, Op.LOG, Op.LOG2, Op.LOG10, Op.ERFC),
        *(Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.ISNAN, Op.ISINF, ReduceOp.SUM),
    }
)
_HAND_ON = _SUMS | {Op.MUL, Op.NEG, Op.MAXIMUM, Op.MINIMUM, Op.WHERE, ReduceOp.MAX, ReduceOp.MIN}
# Where the sign of a zero decides more than that of a zero.
_SHARP = frozenset({Op.DIV, Op.RECIPROCAL, Op.RSQRT, Op.POW, Op.ATAN2, Op.COPYSIGN, Op.SIGNBIT, Op.NEXTAFTER})


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
        if _is_unseen(position, body, readers):
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


def _is_unseen(position: int, body: tuple[Value, ...], readers: list[list[int]]) -> bool:
    """Whether the sign of a zero changes nothing that is stored but the sign of a sum of zeros."""
    waiting, seen = [(position, False)], {(position, False)}
    while waiting:
        one, is_in_sum = waiting.pop()
        for reader in readers[one]:
            value = body[reader]
            op = value.op if isinstance(value, Pointwise | Reduce) else None
            if op in _BLIND:
                continue
            is_told = op not in _SHARP if is_in_sum else op in _HAND_ON
            if not is_told:
                return False
            after = (reader, is_in_sum or op in _SUMS)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return bool(readers[position])
