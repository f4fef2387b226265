"""What shows in a row of nothing but -inf of which a loop finds the maximum and the sum of exponentials together.

Such a loop starts its maximum at the least finite number, so that nothing subtracts infinities: of a row of -inf it
finds that number and the sum 0, where eager PyTorch has -inf and NaN. A quotient by the sum is NaN either way, and so
is the loss of a class in the row; the logarithm of the sum plus the maximum is -inf in one, and NaN in the other. So
the body is computed for such a row, once with each: as far as its values are known, which few numbers they may be.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import torch

from longhand.lower.ir import (
    PRIMITIVES,
    Constant,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Store,
    Value,
    arguments,
)
from longhand.schedule.kernels.kernel_plan import OnlineSoftmax

Possible: TypeAlias = frozenset[float | int | bool] | None  # None: anything
_MOST_CHOICES = 16  # of arguments together
# Numbers of which many together are what each of them is.
_KEPT = {
    ReduceOp.SUM: (0.0, math.inf, -math.inf),
    ReduceOp.MAX: (0.0, math.inf, -math.inf),
    ReduceOp.MIN: (0.0, math.inf, -math.inf),
}


@dataclasses.dataclass(frozen=True)
class _Pair:
    """What a value may be in the row.

    Attributes:
        here: As the loop leaves maximum and sum.
        eager: As eager has them.
        is_same: Whether it is the same in both, whatever it is.
    """

    here: Possible
    eager: Possible
    is_same: bool


_ANYTHING = _Pair(None, None, is_same=True)


def shows_in_infinite_rows(body: tuple[Value, ...], online: OnlineSoftmax) -> bool:
    """Whether a store may differ from eager's in a row of -inf, unless maximum and sum are mended after the loop."""
    largest = body[online.max]
    assert isinstance(largest, Reduce)
    known = {
        largest.arg: _both([-math.inf]),
        online.max: _Pair(_numbers([torch.finfo(largest.dtype).min]), _numbers([-math.inf]), is_same=False),
        online.sum: _Pair(_numbers([0.0]), _numbers([math.nan]), is_same=False),
    }
    pairs: list[_Pair] = []
    for position, value in enumerate(body):
        args = [pairs[argument] for argument in arguments(value)]
        if isinstance(value, Store) and not all(arg.is_same for arg in args):
            return True
        pairs.append(known[position] if position in known else _pair(value, args, body, largest.arg))
    return False


def _pair(value: Value, args: list[_Pair], body: tuple[Value, ...], x: int) -> _Pair:
    is_same = all(arg.is_same for arg in args)
    match value:
        case Constant():
            return _both([value.value])
        case Load() if is_same and _is_of_row(value, body[x]):
            return _both([-math.inf] if value.mask is None else [-math.inf, value.other])
        case Pointwise():
            dtypes = [getattr(body[argument], "dtype", torch.bool) for argument in value.args]
            return _told(
                _applied(value, [arg.here for arg in args], dtypes),
                _applied(value, [arg.eager for arg in args], dtypes),
                is_same,
            )
        case Reduce() if not is_same:
            return _told(_reduced(value, args[0].here), _reduced(value, args[0].eager), is_same)
    return _ANYTHING if is_same else _Pair(None, None, is_same=False)


def _is_of_row(load: Load, x: Value) -> bool:
    """Whether a load reads an element of the row that x goes along, at a place that is data."""
    if not isinstance(x, Load) or load.buffer != x.buffer or x.index.values or len(load.index.values) != 1:
        return False
    steps, own = dict(x.index.axes), dict(load.index.axes)
    along = [step for axis, step in steps.items() if axis not in own]
    rows = all(steps.get(axis) == step for axis, step in own.items())
    return rows and load.index.offset == x.index.offset and along == [load.index.values[0][1]]


def _applied(value: Pointwise, args: Sequence[Possible], dtypes: Sequence[torch.dtype]) -> Possible:
    """What the operation makes of arguments that may be these."""
    primitive = PRIMITIVES[value.op]
    if value.op is PointwiseOp.WHERE and args[0] is not None and len(args[0]) == 1:
        return args[1] if True in args[0] else args[2]
    if value.op is PointwiseOp.WHERE or None in args or value.narrow is not None:
        chosen = args[1:] if value.op is PointwiseOp.WHERE else []
        if chosen and None not in chosen:
            return frozenset().union(*(one for one in chosen if one is not None))
        has_nan = primitive.keeps_nan and any(one == _numbers([math.nan]) for one in args)
        return _numbers([math.nan]) if has_nan else None
    choices = [one for one in args if one is not None]
    if math.prod(len(one) for one in choices) > _MOST_CHOICES:
        return None
    outcomes = []
    for numbers in itertools.product(*choices):
        given = [torch.tensor(one, dtype=dtype) for one, dtype in zip(numbers, dtypes, strict=True)]
        outcomes.append(primitive.in_torch(*given).to(value.dtype).item())
    return _numbers(outcomes)


def _reduced(value: Reduce, arg: Possible) -> Possible:
    """What a reduction of equal numbers may be."""
    if arg is None or len(arg) != 1:
        return None
    (number,) = arg
    return arg if number != number or number in _KEPT.get(value.op, ()) else None


def _told(here: Possible, eager: Possible, is_same: bool) -> _Pair:
    is_one = here is not None and len(here) == 1
    return _Pair(here, eager, is_same or (is_one and repr(here) == repr(eager)))


def _both(numbers: Sequence[float | int | bool]) -> _Pair:
    return _Pair(_numbers(numbers), _numbers(numbers), is_same=True)


def _numbers(numbers: Sequence[float | int | bool]) -> Possible:
    """The set of them, with one NaN."""
    return frozenset(math.nan if number != number else number for number in numbers)
