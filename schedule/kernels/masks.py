"""What lanes past the end of a row hold, so that a reduction over a block of lanes needs no `where` if it can.

The body is evaluated on such a lane: its loads yield `other=`, everything that this leaves unknown is unknown. Where
the argument of a reduction comes out as the reduction's identity nothing has to be done; the others are guarded.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping

import torch

from longhand.lower.ir import (
    PRIMITIVES,
    REDUCTIONS,
    Constant,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Value,
    arguments,
)
from longhand.schedule.kernels.pass_depths import PassDepths

Lane = float | int | bool | None  # None: unknown

# More loads than this are tried one by one only, not in pairs.
_MOST_LOADS_IN_PAIRS = 6


@dataclasses.dataclass(frozen=True)
class Masking:
    """See `KernelPlan.guards`, `KernelPlan.padding` and `KernelPlan.spared`."""

    guards: tuple[int, ...]
    padding: Mapping[int, float | int | bool]
    spared: Mapping[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)


def find_masking(depths: PassDepths) -> Masking:
    """The `other=` of each load that leaves fewest reductions to guard."""
    loads = [
        position
        for position, value in enumerate(depths.body)
        if isinstance(value, Load) and depths.is_element[position]
    ]
    best: Masking | None = None
    for padding in _candidates(depths.body, loads):
        guards = _guards(depths, padding)
        if best is None or len(guards) < len(best.guards):
            best = Masking(guards, padding)
        if not guards:
            break
    assert best is not None
    needed = _feeding_reductions(depths.body)
    # Only what a reduction sees has to be something: stores are masked anyway.
    padding = {load: other for load, other in best.padding.items() if load in needed}
    return Masking(best.guards, padding, _spared(depths, best))


def _spared(depths: PassDepths, masking: Masking) -> dict[int, tuple[int, ...]]:
    """By what is squared in a sum that is guarded: the other sums that need no guard where its lanes are zeros."""
    spared: dict[int, tuple[int, ...]] = {}
    for position in masking.guards:
        reduce = depths.body[position]
        square = depths.body[reduce.arg] if isinstance(reduce, Reduce) else None
        if isinstance(square, Pointwise) and square.op is PointwiseOp.MUL and len({*square.args}) == 1:
            factor = square.args[0]
            left = _guards(depths, masking.padding, {factor: 0.0})
            others = (one for one in masking.guards if one not in left and one != position)
            spared[factor] = tuple(one for one in others if _axes(depths, one) == _axes(depths, position))
    return {factor: others for factor, others in spared.items() if others}


def _axes(depths: PassDepths, position: int) -> tuple[str, ...]:
    reduce = depths.body[position]
    return tuple(reduce.axes) if isinstance(reduce, Reduce) else ()


def _candidates(body: tuple[Value, ...], loads: list[int]) -> list[dict[int, float | int | bool]]:
    zeros: dict[int, float | int | bool] = {}
    choices: dict[int, tuple[float | int | bool, ...]] = {}
    for position in loads:
        load = body[position]
        assert isinstance(load, Load)
        if load.mask is not None:
            choices[position] = (load.other,)
        elif load.dtype is torch.bool:
            choices[position] = (False, True)
        elif load.dtype.is_floating_point:
            choices[position] = (0.0, -math.inf, math.inf, 1.0)
        else:
            choices[position] = (0, 1)
        zeros[position] = choices[position][0]
    candidates = [zeros]
    candidates += [{**zeros, load: other} for load in loads for other in choices[load][1:]]
    if len(loads) <= _MOST_LOADS_IN_PAIRS:
        for one, two in itertools.combinations(loads, 2):
            candidates += [
                {**zeros, one: first, two: second}
                for first in choices[one][1:]
                for second in choices[two][1:]
            ]
    return candidates


def _guards(
    depths: PassDepths, padding: Mapping[int, float | int | bool], told: Mapping[int, float] | None = None
) -> tuple[int, ...]:
    """The reductions that need one; of the values in `told` it is known what their lanes are."""
    lanes = _lanes(depths, padding, told or {})
    sums = {pair.sum for pair in depths.online}
    return tuple(
        position
        for position, value in enumerate(depths.body)
        if isinstance(value, Reduce)
        and position not in sums
        and not (depths.is_element[value.arg] and _is_ignored(value, lanes[value.arg]))
    )


def _is_ignored(reduce: Reduce, lane: Lane) -> bool:
    if lane is None or lane != lane:
        return False
    identity = REDUCTIONS[reduce.op].identity
    return lane is identity if isinstance(identity, bool) else lane == identity


def _lanes(
    depths: PassDepths, padding: Mapping[int, float | int | bool], told: Mapping[int, float]
) -> list[Lane]:
    lanes: list[Lane] = []
    for position, value in enumerate(depths.body):
        lane: Lane = None
        match value:
            case _ if position in told:
                lane = told[position]
            case Load() if position in padding and _ends_with_row(depths, value):
                lane = padding[position]
            case Constant():
                lane = value.value
            case Pointwise():
                lane = _pointwise(depths.body, value, [lanes[argument] for argument in value.args])
        lanes.append(lane)
    return lanes


def _ends_with_row(depths: PassDepths, load: Load) -> bool:
    """Whether a load is masked out past the end of the row: not where its place is the same along the whole row.

    Its own condition, if it has one, may hold there.
    """
    along = any(axis in depths.loop for axis, _ in load.index.axes)
    return along or any(depths.is_element[position] for position, _ in load.index.values)


def _pointwise(body: tuple[Value, ...], value: Pointwise, args: list[Lane]) -> Lane:
    if value.op is PointwiseOp.WHERE:
        condition, yes, no = args
        if condition is None:
            return yes if yes is not None and yes == no else None
        return yes if condition else no
    if value.op is PointwiseOp.SUB and args[0] == -math.inf and args[1] is None:
        # x - max(x): a maximum that is infinite or NaN makes NaN of the row's own lanes too, so -inf is as good. Of
        # another value's maximum that is not so: y - max(x) is infinite where all x are -inf.
        below = body[value.args[1]]
        is_own = isinstance(below, Reduce) and below.op is ReduceOp.MAX and below.arg == value.args[0]
        return -math.inf if is_own else None
    if value.op is PointwiseOp.LOGICAL_AND and False in [arg for arg in args if isinstance(arg, bool)]:
        return False
    if value.op is PointwiseOp.LOGICAL_OR and True in [arg for arg in args if isinstance(arg, bool)]:
        return True
    function = PRIMITIVES[value.op].on_numbers
    if function is None or value.narrow is not None:
        return None
    known = [arg for arg in args if arg is not None]
    if len(known) < len(args):
        return None
    try:
        result = function(*known)
    except (ArithmeticError, ValueError):
        return None
    if value.op is PointwiseOp.CAST:
        return _cast(known[0], value.dtype)
    return result


def _cast(lane: float | int | bool, dtype: torch.dtype) -> Lane:
    if dtype is torch.bool:
        return bool(lane)
    if dtype.is_floating_point:
        return float(lane)
    return int(lane) if math.isfinite(lane) else None


def _feeding_reductions(body: tuple[Value, ...]) -> set[int]:
    """What some reduction's argument depends on without another reduction between."""
    needed: set[int] = set()
    waiting = [value.arg for value in body if isinstance(value, Reduce)]
    while waiting:
        position = waiting.pop()
        if position not in needed and not isinstance(body[position], Reduce):
            needed.add(position)
            waiting.extend(arguments(body[position]))
    return needed
