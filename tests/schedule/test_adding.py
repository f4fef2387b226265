"""Fusion around a store that adds: what makes the values joins it; what reads or writes the totals never does."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.readability.units import text_of
from longhand.lower.ir import (
    Axis,
    Buffer,
    BufferKind,
    Constant,
    Index,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Store,
)
from longhand.lower.rules.adding import adding_problem
from longhand.schedule.dependencies import effects
from longhand.schedule.fusion.inline import inline
from longhand.schedule.fusion.joining import absorb, join
from longhand.schedule.fusion.vertical import fuse
from longhand.schedule.kernels.space import refusal

ROW, COL = Axis("row", 12), Axis("col", 5)
BUFFERS = {
    name: Buffer(name, kind, dtype, shape, stride)
    for name, kind, dtype, shape, stride in [
        ("x", BufferKind.INPUT, torch.float32, (12, 5), (5, 1)),
        ("index", BufferKind.INPUT, torch.int64, (12,), (1,)),
        ("zeros", BufferKind.INTERMEDIATE, torch.int64, (12,), (1,)),
        ("values", BufferKind.INTERMEDIATE, torch.float32, (12, 5), (5, 1)),
        ("totals", BufferKind.INTERMEDIATE, torch.float32, (7, 5), (5, 1)),
        ("out", BufferKind.INTERMEDIATE, torch.float32, (7, 5), (5, 1)),
    ]
}
WHOLE = Index(0, (("col", 1), ("row", 5)))


def made() -> Nest:
    """values = -x"""
    body = (
        Load("x", WHOLE, torch.float32),
        Pointwise(PointwiseOp.NEG, (0,), torch.float32),
        Store("values", WHOLE, 1),
    )
    return Nest((ROW, COL), body)


def begun() -> Nest:
    """totals = 0"""
    return Nest((Axis("row", 7), COL), (Constant(0.0, torch.float32), Store("totals", WHOLE, 0)))


def adding(index: str = "index") -> Nest:
    """totals[index] += values"""
    place = Index(0, (("col", 1),), ((0, 5),))
    body = (
        Load(index, Index(0, (("row", 1),)), torch.int64),
        Load("values", WHOLE, torch.float32),
        Store("totals", place, 1, adds=True),
    )
    return Nest((ROW, COL), body)


def reading(place: Index = WHOLE) -> Nest:
    """out = -totals"""
    body = (
        Load("totals", place, torch.float32),
        Pointwise(PointwiseOp.NEG, (0,), torch.float32),
        Store("out", WHOLE, 1),
    )
    return Nest((Axis("row", 7), COL), body)


def test_what_it_adds_to_is_read_and_written() -> None:
    assert effects(adding()).reads == ("index", "values", "totals")
    assert effects(adding()).writes == ("totals",)


def test_what_makes_the_values_joins_it_and_nothing_else_does() -> None:
    fused = fuse([begun(), made(), adding(), reading()], BUFFERS, frozenset({"out"}), int)
    assert len(fused.steps) == 3
    assert [effects(step).writes for step in fused.steps].count(("totals",)) == 2
    (one,) = (step for step in fused.steps if isinstance(step, Nest) and "x" in effects(step).reads)
    assert any(isinstance(value, Store) and value.adds for value in one.body)
    assert refusal(one) is None


def test_totals_are_not_seen_before_they_are_whole() -> None:
    dead = frozenset({"totals"})
    assert isinstance(join(begun(), adding(), BUFFERS, frozenset()), str)
    # At the very place that is data, too, and where nobody else would read them.
    gathered = Nest(
        (ROW, COL),
        (
            Load("index", Index(0, (("row", 1),)), torch.int64),
            Load("totals", Index(0, (("col", 1),), ((0, 5),)), torch.float32),
            Store("values", WHOLE, 1),
        ),
    )
    for reader in (reading(), gathered):
        assert isinstance(join(adding(), reader, BUFFERS, dead), str)
        assert isinstance(inline(adding(), "totals", reader, BUFFERS), str)


def test_what_is_added_is_not_the_total() -> None:
    """Nor where the positions turned out to be no data, so that it lies where it is read."""
    body = (Load("x", WHOLE, torch.float32), Store("totals", WHOLE, 0, adds=True))
    plain = Nest((Axis("row", 7), COL), body)
    assert isinstance(join(plain, reading(), BUFFERS, frozenset({"totals"})), str)
    assert isinstance(inline(plain, "totals", reading(), BUFFERS), str)


def test_each_value_is_added_once() -> None:
    """Positions that turn out to be one number leave an axis without a use: no loop over it may go."""
    zeros = Nest((ROW,), (Constant(0, torch.int64), Store("zeros", Index(0, (("row", 1),)), 0)))
    ones = Nest((ROW, COL), (Constant(1.0, torch.float32), Store("values", WHOLE, 0)))
    of_ones = absorb(ones, "values", adding("zeros"), BUFFERS)
    assert isinstance(of_ones, Nest)
    assert isinstance(absorb(zeros, "zeros", of_ones, BUFFERS), str)


def test_it_reduces_nothing() -> None:
    body = (
        Load("index", Index(0, (("row", 1),)), torch.int64),
        Load("values", WHOLE, torch.float32),
        Reduce(ReduceOp.SUM, 1, ("col",), torch.float32),
        Store("totals", Index(0, (), ((0, 5),)), 2, adds=True),
    )
    assert adding_problem(Nest((ROW, COL), body)) is not None
    assert refusal(Nest((ROW, COL), body)) is not None


class Embedded(nn.Module):
    """A lookup and a norm, whose gradient is made of sums along rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.table(ids))


def test_a_norms_gradient_is_whole_before_it_is_added_up() -> None:
    files = text_of((Embedded(), (torch.randint(50, (3, 7)),), {}), "cuda", train=True)
    adding = next(
        text for path, text in files.items() if path.startswith("kernels/") and "tl.atomic_add" in text
    )
    kernel = adding.partition("def reference")[0]
    assert kernel.count("tl.load(") == 2, "where to, and what"
