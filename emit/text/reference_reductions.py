"""A reduction in a reference: one call of torch over the dimensions that the kernel reduces, which stay with size 1."""

from __future__ import annotations

from longhand.emit.text.expression import Text
from longhand.lower.ir import ReduceOp

__all__ = ["reduction"]

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


def reduction(op: ReduceOp, text: str, dims: list[int]) -> Text:
    """A reduction over dimensions (negative, in order) that keeps them with size 1."""
    method = _REDUCTIONS[op]
    where = str(dims[0]) if len(dims) == 1 else f"({', '.join(map(str, dims))})"
    if op not in _ONE_DIM_AT_A_TIME or len(dims) == 1:
        return Text(f"{text}.{method}({where}, keepdim=True)")
    if dims == list(range(-len(dims), 0)):
        kept = ".unsqueeze(-1)" * (len(dims) - 1)
        return Text(f"{text}.flatten({dims[0]}).{method}(-1, keepdim=True){kept}")
    if op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        raise AssertionError("positions are reduced over trailing axes only")
    return Text(text + "".join(f".{method}({dim}, keepdim=True)" for dim in dims))
