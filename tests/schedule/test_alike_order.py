"""Nests that store the same results are one kernel, in whatever order fusion came by these."""

from __future__ import annotations

import torch

from longhand.lower.ir import (
    Axis,
    Index,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Step,
    Store,
    Value,
)
from longhand.schedule.fusion.alike_order import alike_in_one_order

_ROWS = Index(axes=(("row", 1),))
_EACH = Index(axes=(("col", 1), ("row", 8)))


def _nest(layer: str, sums_first: bool) -> Nest:
    """The sum of each row, and each element doubled; made in one order or in the other."""
    x = Load(f"{layer}_x", _EACH, torch.float32)
    body: list[Value]
    if sums_first:
        total = Reduce(ReduceOp.SUM, 0, ("col",), torch.float32)
        twice = Pointwise(PointwiseOp.ADD, (0, 0), torch.float32)
        body = [x, total, twice, Store(f"{layer}_sum", _ROWS, 1), Store(f"{layer}_twice", _EACH, 2)]
    else:
        twice = Pointwise(PointwiseOp.ADD, (0, 0), torch.float32)
        total = Reduce(ReduceOp.SUM, 0, ("col",), torch.float32)
        body = [x, twice, total, Store(f"{layer}_twice", _EACH, 1), Store(f"{layer}_sum", _ROWS, 2)]
    return Nest((Axis("row", 4), Axis("col", 8)), tuple(body))


def _kinds(step: Step) -> list[str]:
    assert isinstance(step, Nest)
    return [
        value.buffer.partition("_")[2] if isinstance(value, Store) else type(value).__name__
        for value in step.body
    ]


def test_what_stores_the_same_is_in_the_order_of_the_first() -> None:
    first, second = _nest("a", sums_first=True), _nest("b", sums_first=False)
    made = alike_in_one_order([first, second])
    assert _kinds(made[0]) == _kinds(made[1]) == ["Load", "Reduce", "Pointwise", "sum", "twice"]
    assert isinstance(made[1], Nest)
    assert {value.buffer for value in made[1].body if isinstance(value, Store)} == {"b_sum", "b_twice"}


def test_what_is_in_one_order_stays_as_it_is() -> None:
    nests = [_nest("a", sums_first=False), _nest("b", sums_first=False)]
    assert alike_in_one_order(nests) == nests
