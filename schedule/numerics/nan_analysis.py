"""Where a maximum may drop NaN although PyTorch's does not.

Triton's plain ``tl.max`` and ``tl.maximum`` ignore NaN, and so does ``x > m ? x : m`` in C++; what does not reads
worse. In a softmax the difference cannot be seen: if an element of the row is NaN, then so is its exponential, the
row's sum of them, and everything that the sum goes into. This module proves that for a body.

For a Reduce MAX of x, suppose that some element of the row is NaN, so that eager's maximum is NaN. Of each value we ask
where it is sure to be NaN, here and in eager PyTorch alike (nowhere, in the very lanes where x is, or in the whole
row), and whether it may otherwise differ from eager's. A store of one that may is a visible difference.
"""

from __future__ import annotations

import dataclasses
import enum

from longhand.lower.ir import PRIMITIVES, Pointwise, Reduce, ReduceOp, Store, Value, arguments


class _Nan(enum.Enum):
    """Where a value is NaN, here and in eager PyTorch, if an element of the row is."""

    UNKNOWN = enum.auto()
    THERE = enum.auto()  # in the lanes of those elements
    EVERYWHERE = enum.auto()


@dataclasses.dataclass(frozen=True)
class _State:
    nan: _Nan = _Nan.UNKNOWN
    may_differ: bool = False


def nan_droppers(body: tuple[Value, ...]) -> frozenset[int]:
    """Positions of the Reduces MAX that may ignore NaN without a visible difference."""
    return frozenset(position for position in range(len(body)) if nan_may_be_dropped(body, position))


def nan_may_be_dropped(body: tuple[Value, ...], maximum: int) -> bool:
    """Whether the Reduce MAX at `maximum` may ignore NaN without a visible difference."""
    reduce = body[maximum]
    if not isinstance(reduce, Reduce) or reduce.op is not ReduceOp.MAX:
        return False
    states: list[_State] = []
    for position, value in enumerate(body):
        operands = [states[arg] for arg in arguments(value)]
        if position == maximum:
            states.append(_State(may_differ=True))
        elif position == reduce.arg:
            states.append(_State(_Nan.THERE))
        else:
            states.append(_state(value, operands, reduce))
        if isinstance(value, Store) and any(state.may_differ for state in operands):
            return False
    return True


def _state(value: Value, args: list[_State], reduce: Reduce) -> _State:
    """The state of a value whose arguments have these."""
    may_differ = any(state.may_differ for state in args)
    kinds = {state.nan for state in args}
    match value:
        case Reduce() if value.op is ReduceOp.SUM and set(value.axes) == set(reduce.axes):
            if kinds & {_Nan.THERE, _Nan.EVERYWHERE}:
                return _State(_Nan.EVERYWHERE)
        case Pointwise() if PRIMITIVES[value.op].keeps_nan and value.dtype.is_floating_point:
            if _Nan.EVERYWHERE in kinds:
                return _State(_Nan.EVERYWHERE)
            if _Nan.THERE in kinds:
                return _State(_Nan.THERE, may_differ)
    return _State(may_differ=may_differ)
