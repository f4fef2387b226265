"""How PyTorch writes a body's reductions; the dialect of the references."""

from __future__ import annotations

from collections.abc import Sequence

from longhand.emit.text.expression import Text
from longhand.emit.text.reference_ops import TORCH
from longhand.emit.text.reference_page import ReferencePage
from longhand.lower.ir import ReduceOp

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


def winner(page: ReferencePage, text: str, dims: Sequence[int]) -> Text:
    """The place in a window, its first dimensions `dims`: of the last NaN, else of the first of the largest."""
    dim = dims[-1]
    if len(dims) > 1:
        text = _line(page, "in_window", f"{text}.flatten({dims[0]}, {dim})")
    is_nan = _line(page, "is_nan", f"{text}.isnan()")
    last = f"{is_nan}.shape[{dim}] - 1 - {is_nan}.flip({dim}).int().argmax({dim}, keepdim=True)"
    last_nan = _line(page, "last_nan", last)
    first = f"{text}.argmax({dim}, keepdim=True)"
    page.modules.add(TORCH)
    return Text(f"torch.where({is_nan}.any({dim}, keepdim=True), {last_nan}, {first})")


def _line(page: ReferencePage, word: str, text: str) -> str:
    name = page.scope.pick([word])
    page.lines.append((name, text))
    return name
