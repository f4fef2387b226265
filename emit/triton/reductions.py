"""How reductions of a body are written: identities, functions that combine, and where a guard stands."""

from __future__ import annotations

from collections.abc import Container

from longhand.emit.triton.types import number
from longhand.lower.ir import Pointwise, PointwiseOp, Reduce, ReduceOp, Store, Value, arguments
from longhand.schedule.plan import KernelPlan


def combine_function(op: ReduceOp) -> str:
    """The device function that combines two partial results with PyTorch's rules for NaN."""
    return {
        ReduceOp.MAX: "nan_maximum",
        ReduceOp.MIN: "nan_minimum",
        ReduceOp.PROD: "times",
        ReduceOp.ARGMAX: "first_max",
        ReduceOp.ARGMIN: "first_min",
    }[op]


def reduce_identity(body: tuple[Value, ...], position: int) -> str:
    """The element that changes nothing: 0 for a sum, minus infinity for a maximum."""
    reduce = body[position]
    assert isinstance(reduce, Reduce)
    argument = body[reduce.arg]
    assert not isinstance(argument, Store)
    dtype = argument.dtype
    match reduce.op:
        case ReduceOp.SUM:
            return number(0, dtype)
        case ReduceOp.PROD:
            return number(1, dtype)
        case ReduceOp.ANY:
            return "False"
        case ReduceOp.ALL:
            return "True"
    is_max = reduce.op in (ReduceOp.MAX, ReduceOp.ARGMAX)
    if dtype.is_floating_point:
        return number(float("-inf") if is_max else float("inf"), dtype)
    bits = 63 if "64" in str(dtype) else 31
    return f"-(2**{bits})" if is_max else f"2**{bits} - 1"


def guarded_squares(plan: KernelPlan, named: Container[int]) -> dict[int, int]:
    """Guarded sums of x * x where x has a line: the guard goes there, once, and the square needs none.

    Only where every reduction that x feeds is guarded, so that no other one sees the change.
    """
    found: dict[int, int] = {}
    body = plan.body
    for position in plan.guards:
        reduce = body[position]
        if not isinstance(reduce, Reduce) or reduce.op is not ReduceOp.SUM or plan.passes:
            continue
        square = body[reduce.arg]
        if not isinstance(square, Pointwise) or square.op is not PointwiseOp.MUL or reduce.arg in named:
            continue
        factor, other = square.args
        if factor != other or factor not in named or not isinstance(body[factor], Pointwise):
            continue
        fed = _fed_by(body, factor)
        if factor not in found.values() and all(p in plan.guards for p in fed if isinstance(body[p], Reduce)):
            found[position] = factor
    return found


def _fed_by(body: tuple[Value, ...], source: int) -> set[int]:
    found = {source}
    for position, value in enumerate(body):
        if found & set(arguments(value)):
            found.add(position)
    return found
