"""A part of a derivative may hold what it is given until it returns, where that raises no peak."""

from __future__ import annotations

import torch

from longhand.lower.ir import Buffer, BufferKind
from longhand.schedule.functions.derivative_memory import MemoryOfSteps
from longhand.schedule.plan import Allocate, PlanStep, Release, Reuse

_BUFFERS = {
    name: Buffer(name, BufferKind.INTERMEDIATE, torch.float32, (size,), (1,))
    for name, size in (("x", 100), ("same", 100), ("small", 10), ("large", 100), ("huge", 300))
}


def _memory(*steps: PlanStep) -> MemoryOfSteps:
    return MemoryOfSteps(steps, _BUFFERS, {})


def test_what_dies_before_as_much_is_made_may_not_stay() -> None:
    steps = (Allocate("x"), Allocate("small"), Release(("x",)), Allocate("large"), Release(("large",)))
    assert not _memory(*steps).may_hold(["x"], 1, 5)
    assert _memory(*steps).may_hold(["x"], 1, 3)  # it is over before the other one begins


def test_it_may_where_more_is_held_at_another_moment() -> None:
    steps = (Allocate("x"), Allocate("small"), Release(("x",)), Allocate("large"), Release(("large",)))
    assert _memory(*steps, Allocate("huge")).may_hold(["x"], 1, 5)


def test_memory_that_another_name_takes_over_is_held_once() -> None:
    steps = (Allocate("x"), Reuse("same", "x", in_place=True), Release(("same",)), Allocate("large"))
    assert not _memory(*steps).may_hold(["x"], 1, 4)
    assert _memory(*steps[:3], Allocate("small")).may_hold(["small"], 1, 4)
