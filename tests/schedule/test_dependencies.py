"""Steps wait for exactly those whose memory they need or overwrite."""

from __future__ import annotations

from typing import Any

import torch

from longhand.lower.ir import Axis, Extern, Index, Load, Nest, Store, View
from longhand.schedule.dependencies import effects, indices_are_disjoint, predecessors


def copy(source: str, target: str, size: int = 8, offset: int = 0, step: int = 1) -> Nest:
    body = (
        Load(source, Index(0, (("i", 1),)), torch.float32),
        Store(target, Index(offset, (("i", step),)), 0),
    )
    return Nest((Axis("i", size),), body)


def test_read_after_write_and_write_after_read() -> None:
    steps = [copy("x", "a"), copy("a", "b"), copy("b", "x"), copy("x", "c")]
    assert predecessors(steps) == [set(), {0}, {0, 1}, {2}]


def test_disjoint_parts_do_not_wait_for_each_other_but_their_reader_waits_for_all() -> None:
    steps = [copy("x", "both"), copy("y", "both", offset=8), copy("both", "out", size=16)]
    assert predecessors(steps) == [set(), set(), {0, 1}]


def test_overlapping_writes_keep_their_order() -> None:
    steps = [copy("x", "both"), copy("y", "both", offset=7)]
    assert predecessors(steps) == [set(), {0}]


def test_columns_of_one_tensor_are_disjoint() -> None:
    sizes = {"r": 4, "c": 3}
    left, right = (Index(offset, (("c", 1), ("r", 7))) for offset in (0, 3))
    assert indices_are_disjoint(left, sizes, right, sizes)
    assert not indices_are_disjoint(left, sizes, Index(2, (("c", 1), ("r", 7))), sizes)
    # The last columns of a row and the first of the next one.
    assert not indices_are_disjoint(Index(5, (("c", 1), ("r", 7))), sizes, left, sizes)


def test_externs_read_views_in_tuples_and_write_what_they_mutate() -> None:
    def view(name: str) -> Any:
        return View(name, (8,), (1,))

    target = torch.ops.aten.cat.default
    step = Extern(
        target, ((view("a"), view("b")), 0), (("other", view("c")),), ("out", ""), mutates=("state",)
    )
    assert effects(step).reads == ("a", "b", "c")
    assert effects(step).writes == ("out", "state")
    assert predecessors([copy("x", "b"), step, copy("state", "y")]) == [set(), {0}, {1}]
