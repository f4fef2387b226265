"""Where a maximum may drop NaN although PyTorch's does not.

Triton's plain ``tl.max`` and ``tl.maximum`` ignore NaN; those that do not read worse. In a softmax the difference
cannot be seen: if an element of the row is NaN, then so is its exponential, the row's sum of them, and everything that
the sum goes into. This module proves that for a body.

For a Reduce MAX of x, suppose that some element of the row is NaN. Then each value is in one of four states:

* CLEAN: does not depend on the maximum and is not known to be NaN anywhere: right in any case.
* CARRIES: NaN in the very lanes where x is; may also depend on the maximum.
* NAN: NaN in the whole row, here and in eager PyTorch.
* WRONG: depends on the maximum and may differ from what eager computes.

A store of WRONG, or of something CARRIES that depends on the maximum, is a difference; anything else is not.
"""

from __future__ import annotations

import enum

from longhand.lower.ir import Load, Pointwise, PointwiseOp, Reduce, ReduceOp, Store, Value, arguments

Op = PointwiseOp

# NaN in, NaN out, for every argument.
_STRICT = frozenset(
    {
        *(Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.FMA, Op.NEG, Op.ABS, Op.RECIPROCAL, Op.MAXIMUM, Op.MINIMUM),
        *(
            Op.SQRT,
            Op.RSQRT,
            Op.EXP,
            Op.EXP2,
            Op.EXPM1,
            Op.LOG,
            Op.LOG2,
            Op.LOG10,
            Op.LOG1P,
            Op.TANH,
            Op.SIGMOID,
        ),
    }
)


class _State(enum.Enum):
    CLEAN = enum.auto()
    CARRIES = enum.auto()
    NAN = enum.auto()
    WRONG = enum.auto()


def nan_may_be_dropped(body: tuple[Value, ...], maximum: int) -> bool:
    """Whether the Reduce MAX at `maximum` may ignore NaN without a visible difference."""
    reduce = body[maximum]
    if not isinstance(reduce, Reduce) or reduce.op is not ReduceOp.MAX:
        return False
    states: list[_State] = []
    tainted: list[bool] = []
    for position, value in enumerate(body):
        args = arguments(value)
        is_tainted = position == maximum or any(tainted[arg] for arg in args)
        state = _state(value, position, maximum, reduce, states, is_tainted)
        if isinstance(value, Store) and state is not _State.NAN and is_tainted:
            return False
        states.append(state)
        tainted.append(is_tainted)
    return True


def _state(
    value: Value, position: int, maximum: int, reduce: Reduce, states: list[_State], is_tainted: bool
) -> _State:
    if position == maximum:
        return _State.WRONG
    if position == reduce.arg:
        return _State.CARRIES
    found = {states[arg] for arg in arguments(value)}
    plain = _State.WRONG if is_tainted else _State.CLEAN
    match value:
        case Store():
            # Its index must not depend on the maximum either.
            return states[value.value] if len(arguments(value)) == 1 else plain
        case Load():
            return plain
        case Reduce():
            sums = value.op is ReduceOp.SUM and set(value.axes) == set(reduce.axes)
            if sums and found & {_State.CARRIES, _State.NAN}:
                return _State.NAN
            return plain
        case Pointwise() if value.op in _STRICT and value.dtype.is_floating_point:
            for state in (_State.NAN, _State.CARRIES):
                if state in found:
                    return state
    return plain
