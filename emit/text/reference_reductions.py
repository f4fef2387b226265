"""A reduction in a reference: one call of torch over the dimensions that the kernel reduces, which stay with size 1."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.emit.text.expression import Text
from longhand.lower.ir import AxisSize, Pointwise, PointwiseOp, Reduce, ReduceOp, Value

__all__ = ["reduction", "total_of_mean"]

_REDUCTIONS = {
    ReduceOp.SUM: "sum",
    ReduceOp.PROD: "prod",
    ReduceOp.MAX: "amax",
    ReduceOp.MIN: "amin",
    ReduceOp.ARGMAX: "argmax",
    ReduceOp.ARGMIN: "argmin",
    ReduceOp.ANY: "any",
    ReduceOp.ALL: "all",
}
_ONE_DIM_AT_A_TIME = frozenset({ReduceOp.ARGMAX, ReduceOp.ARGMIN, ReduceOp.PROD, ReduceOp.ANY, ReduceOp.ALL})


def reduction(op: ReduceOp, text: str, dims: list[int], method: str = "") -> Text:
    """A reduction over dimensions (negative, in order) that keeps them with size 1; by its own method or another."""
    method = method or _REDUCTIONS[op]
    where = str(dims[0]) if len(dims) == 1 else f"({', '.join(map(str, dims))})"
    if op not in _ONE_DIM_AT_A_TIME or len(dims) == 1:
        return Text(f"{text}.{method}({where}, keepdim=True)")
    if dims == list(range(-len(dims), 0)):
        kept = ".unsqueeze(-1)" * (len(dims) - 1)
        return Text(f"{text}.flatten({dims[0]}).{method}(-1, keepdim=True){kept}")
    if op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        raise AssertionError("positions are reduced over trailing axes only")
    return Text(text + "".join(f".{method}({dim}, keepdim=True)" for dim in dims))


def total_of_mean(value: Pointwise, body: Sequence[Value]) -> Reduce | None:
    """The sum that a value is the mean of, where it is one."""
    if value.op is not PointwiseOp.DIV:
        return None
    total, count = (body[argument] for argument in value.args)
    is_sum = isinstance(total, Reduce) and total.op is ReduceOp.SUM
    is_count = isinstance(count, AxisSize) and isinstance(total, Reduce) and count.axes == total.axes
    return total if is_sum and is_count and isinstance(total, Reduce) else None
