"""Two norms that share nothing but the gradient they are given are two kernels; what belongs together stays."""

from __future__ import annotations

import torch

from longhand.lower.ir import (
    Axis,
    AxisSize,
    Index,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Store,
    Value,
)
from longhand.schedule.fusion.fission import split_wide_nests

f32 = torch.float32
ROW = Index(0, (("row", 1),))
WHOLE = Index(0, (("row", 64), ("col", 1)))
AXES = (Axis("row", 8), Axis("col", 64))


class Body:
    """Values one after the other."""

    def __init__(self) -> None:
        self.values: list[Value] = []

    def add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def load(self, buffer: str, index: Index) -> int:
        return self.add(Load(buffer, index, f32))

    def op(self, op: PointwiseOp, *args: int) -> int:
        return self.add(Pointwise(op, args, f32))

    def total(self, value: int) -> int:
        return self.add(Reduce(ReduceOp.SUM, value, ("col",), f32))

    def norm(self, name: str, gradient: int, given: str) -> None:
        """The gradients of a norm: four vectors and the input in, three results out."""
        x = self.load(given, WHOLE)
        for place in range(4):
            vector = self.load(f"{name}_vector_{'abcd'[place]}", ROW)
            x = self.op(PointwiseOp.MUL, x, vector)
        total = self.total(self.op(PointwiseOp.MUL, gradient, x))
        mean = self.op(PointwiseOp.DIV, total, self.add(AxisSize(("col",), f32)))
        self.add(Store(f"d_{name}", WHOLE, self.op(PointwiseOp.SUB, gradient, mean)))
        self.add(Store(f"d_{name}_weight", ROW, total))
        self.add(Store(f"d_{name}_bias", ROW, self.total(gradient)))


def two_norms(written: str = "d_first") -> Nest:
    body = Body()
    gradient = body.op(PointwiseOp.ADD, body.load("d_left", WHOLE), body.load("d_right", WHOLE))
    body.norm("first", gradient, "x")
    body.norm("second", gradient, "y")
    values = tuple(
        (
            Store(written, value.index, value.value)
            if isinstance(value, Store) and value.buffer == "d_first"
            else value
        )
        for value in body.values
    )
    return Nest(AXES, values)


PLACES = {
    name: place
    for place, name in enumerate(
        ["d_first", "d_first_weight", "d_first_bias", "d_second", "d_second_weight", "d_second_bias"]
    )
}


def stored(nest: Nest) -> list[str]:
    return [value.buffer for value in nest.body if isinstance(value, Store)]


def test_two_norms_are_two_nests_with_their_own_results() -> None:
    parts = split_wide_nests([two_norms()], PLACES)
    assert [sorted(stored(part)) for part in parts if isinstance(part, Nest)] == [
        ["d_first", "d_first_bias", "d_first_weight"],
        ["d_second", "d_second_bias", "d_second_weight"],
    ]


def test_parts_that_do_the_same_are_the_same() -> None:
    first, second = split_wide_nests([two_norms()], PLACES)
    assert isinstance(first, Nest) and isinstance(second, Nest)
    assert [type(value) for value in first.body] == [type(value) for value in second.body]
    assert [getattr(v, "args", None) for v in first.body] == [getattr(v, "args", None) for v in second.body]


def test_one_norm_stays_whole_and_so_does_what_it_is_given() -> None:
    body = Body()
    body.norm("first", body.load("d_left", WHOLE), "x")
    nest = Nest(AXES, tuple(body.values))
    assert split_wide_nests([nest], PLACES) == [nest]


def test_what_writes_over_what_it_reads_stays_whole() -> None:
    nest = two_norms(written="y")
    assert split_wide_nests([nest], PLACES) == [nest]
