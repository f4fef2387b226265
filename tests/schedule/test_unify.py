"""Axes are split and named until two indices are one."""

from __future__ import annotations

import sympy
import torch

from longhand.lower.ir import Axis, Index, Load, Nest, Size, Store
from longhand.schedule.fusion.loop_alignment import Aligned, align, align_leftovers, disjoint


def nest(sizes: dict[str, Size], buffer: str, **steps: Size) -> Nest:
    index = Index(0, tuple(sorted(steps.items())))
    body = (Load(buffer, index, torch.float32), Store("out", index, 0))
    return Nest(tuple(Axis(name, size) for name, size in sizes.items()), body)


def joined(left: Nest, right: Nest) -> Aligned | None:
    state = disjoint(left, right)
    found = align(state, state.left.body[0].index, state.right.body[0].index)
    if found is not None:
        assert found.left.body[0].index == found.right.body[0].index
    return found


def test_tokens_and_features_become_batch_seq_head_and_width() -> None:
    left = nest({"r": 12, "c": 8}, "x", r=8, c=1)
    right = nest({"b": 3, "h": 2, "s": 4, "d": 4}, "x", b=32, h=4, s=8, d=1)
    found = joined(left, right)
    assert found is not None
    assert {axis.name for axis in found.left.axes} == {"b", "s", "h", "d"}
    assert found.right == right


def test_same_names_are_kept_apart_before() -> None:
    left = nest({"i": 4, "j": 6}, "x", i=6, j=1)
    right = nest({"j": 4, "i": 6}, "x", j=6, i=1)
    found = joined(left, right)
    assert found is not None
    assert [axis.name for axis in found.left.axes] == ["j", "i"]


def test_both_sides_are_split_where_neither_divides_the_other() -> None:
    left = nest({"a": 4, "b": 6}, "x", a=6, b=1)
    right = nest({"c": 12, "d": 2}, "x", c=2, d=1)
    found = joined(left, right)
    assert found is not None
    assert [axis.size for axis in found.left.axes] == [4, 3, 2]


def test_sizes_that_do_not_factor_are_refused() -> None:
    assert joined(nest({"a": 4, "b": 6}, "x", a=6, b=1), nest({"c": 6, "d": 4}, "x", c=4, d=1)) is None
    assert joined(nest({"a": 4, "b": 6}, "x", a=6, b=1), nest({"c": 24}, "x", c=2)) is None


def test_symbolic_sizes() -> None:
    batch, seq = sympy.symbols("batch seq", positive=True, integer=True)
    left = nest({"r": batch * seq, "c": 8}, "x", r=8, c=1)
    right = nest({"b": batch, "s": seq, "d": 8}, "x", b=8 * seq, s=8, d=1)
    found = joined(left, right)
    assert found is not None
    assert [axis.size for axis in found.left.axes] == [batch, seq, 8]


def test_leftovers_match_by_size_from_the_inside() -> None:
    state = disjoint(nest({"k": 12}, "x", k=1), nest({"c": 3, "d": 4}, "y", c=4, d=1))
    found = align_leftovers(state, ["k"], ["c", "d"])
    assert found is not None
    assert [axis.name for axis in found.left.axes] == ["c", "d"]
