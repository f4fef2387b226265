"""A producer's value at another place: only where that place is certainly one of its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from longhand.lower.ir import (
    Axis,
    Constant,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
)
from longhand.lower.ir import PointwiseOp as Op
from longhand.schedule.fusion.inline import inline

Run = Callable[..., dict[str, torch.Tensor]]
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "slice": lambda t: t[1:3, 2:5],
    "column": lambda t: t[:, 3],
    "step": lambda t: t[:, ::2],
    "transpose": lambda t: t.t(),
    "split": lambda t: t.view(2, 2, 3, 2),
    "merged": lambda t: t.reshape(-1),
    "split_otherwise": lambda t: t.reshape(-1).view(8, 3),
    "expand": lambda t: t[:1].expand(5, 6),
    "all": lambda t: t,
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_a_producer(program: Any, run: Run, view: str) -> None:
    x = program.input("x", 4, 6)
    row = program.input("row", 6)
    made = program.pointwise("made", lambda b, u, v: b.op(Op.TANH, b.op(Op.ADD, u, v)), x, row)
    program.pointwise("out", lambda b, u: b.op(Op.MUL, u, 2.0), made.seen(VIEWS[view]))
    producer, consumer = program.steps
    joined = inline(producer, "made", consumer, program.buffers)
    assert isinstance(joined, Nest), joined
    assert "made" not in {value.buffer for value in joined.body if isinstance(value, Load)}
    expected = run(program.steps, program.buffers, program.inputs)["out"]
    torch.testing.assert_close(run([joined], program.buffers, program.inputs)["out"], expected)


def padded(low: int, limit: int) -> Nest:
    """out[r, c] = made[r, c - 2] where low <= c < limit, else 0.5; a row of `made` has 6 columns."""
    index = Index(-2, (("c", 1), ("r", 6)))
    body = (
        IndexExpression(Index(0, (("c", 1),))),
        Constant(low, torch.int64),
        Pointwise(Op.GE, (0, 1), torch.bool),
        Constant(limit, torch.int64),
        Pointwise(Op.LT, (0, 3), torch.bool),
        Pointwise(Op.LOGICAL_AND, (2, 4), torch.bool),
        Load("made", index, torch.float32, mask=5, other=0.5),
        Store("out", Index(0, (("c", 1), ("r", 9))), 6),
    )
    return Nest((Axis("r", 4), Axis("c", 9)), body)


def test_a_mask_bounds_the_place(program: Any, run: Run) -> None:
    x = program.input("x", 4, 6)
    program.pointwise("made", lambda b, u: b.op(Op.EXP, u), x)
    program.fresh("out", (4, 9), torch.float32)
    program.steps.append(padded(2, 8))
    joined = inline(program.steps[0], "made", program.steps[1], program.buffers)
    assert isinstance(joined, Nest), joined
    expected = run(program.steps, program.buffers, program.inputs)["out"]
    torch.testing.assert_close(run([joined], program.buffers, program.inputs)["out"], expected)


@pytest.mark.parametrize(("low", "limit"), [(1, 8), (2, 9)])
def test_a_mask_that_lets_rows_run_into_each_other_is_refused(program: Any, low: int, limit: int) -> None:
    program.pointwise("made", lambda b, u: b.op(Op.EXP, u), program.input("x", 4, 6))
    assert isinstance(inline(program.steps[0], "made", padded(low, limit), program.buffers), str)


def test_gathered_rows(program: Any, run: Run) -> None:
    x = program.input("x", 4, 6)
    program.input("which", 5, value=torch.tensor([3, 0, 0, 2, 1]))
    program.pointwise("made", lambda b, u: b.op(Op.EXP, u), x)
    program.fresh("out", (5, 6), torch.float32)
    body = (
        Load("which", Index(0, (("r", 1),)), torch.int64),
        Load("made", Index(0, (("c", 1),), ((0, 6),)), torch.float32),
        Store("out", Index(0, (("c", 1), ("r", 6))), 1),
    )
    program.steps.append(Nest((Axis("r", 5), Axis("c", 6)), body))
    joined = inline(program.steps[0], "made", program.steps[1], program.buffers)
    assert isinstance(joined, Nest)
    expected = run(program.steps, program.buffers, program.inputs)["out"]
    torch.testing.assert_close(run([joined], program.buffers, program.inputs)["out"], expected)


def test_a_reduction_is_never_repeated(program: Any) -> None:
    x = program.input("x", 4, 6)
    total = program.reduce("total", lambda b, u: b.reduce(ReduceOp.SUM, u), [1], x)
    program.pointwise("out", lambda b, u: b.op(Op.NEG, u), total.seen(lambda t: t[1:]))
    assert any(isinstance(value, Reduce) for value in program.steps[0].body)
    assert isinstance(inline(program.steps[0], "total", program.steps[1], program.buffers), str)


def looked_up(position: Index, n_values: int, coefficient: int, shape: tuple[int, ...], mask: bool) -> Nest:
    """out[i] = made[position + coefficient * which[i]], under the mask ``which[i] < n_values`` or without one."""
    strides = (("r", 6),) if len(shape) == 2 else ()
    index = Index(position.offset, position.axes, ((0, coefficient),))
    body = (
        Load("which", Index(0, (("c", 1),)), torch.int64),
        Scalar(n_values, torch.int64),
        Pointwise(Op.LT, (0, 1), torch.bool),
        Load("made", index, torch.float32, mask=2 if mask else None, other=0.5),
        Store("out", Index(0, (("c", 1), *strides)), 3),
    )
    return Nest((Axis("r", shape[0]), Axis("c", 6)) if len(shape) == 2 else (Axis("c", 6),), body)


@pytest.mark.parametrize("mask", [False, True])
def test_a_place_in_a_row_that_is_data(program: Any, run: Run, mask: bool) -> None:
    """made[r, which[c]]: the other terms leave a row of the buffer, and the mask says it, too."""
    x = program.input("x", 4, 6)
    program.input("which", 6, value=torch.tensor([3, 0, 5, 2, 1, 5]))
    program.pointwise("made", lambda b, u: b.op(Op.EXP, u), x)
    program.fresh("out", (4, 6), torch.float32)
    program.steps.append(looked_up(Index(0, (("r", 6),)), 6, 1, (4, 6), mask))
    joined = inline(program.steps[0], "made", program.steps[1], program.buffers)
    assert isinstance(joined, Nest), joined
    expected = run(program.steps, program.buffers, program.inputs)["out"]
    torch.testing.assert_close(run([joined], program.buffers, program.inputs)["out"], expected)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize(("coefficient", "n_values"), [(1, 24), (2, 12)])
def test_a_place_that_is_data_may_run_over_several_axes(
    program: Any, coefficient: int, n_values: int, mask: bool
) -> None:
    """made.flatten()[which], as rolling what windows were put together from: no axis of `made` by itself."""
    program.pointwise("made", lambda b, u: b.op(Op.EXP, u), program.input("x", 4, 6))
    consumer = looked_up(Index(), n_values, coefficient, (6,), mask)
    assert isinstance(inline(program.steps[0], "made", consumer, program.buffers), str)
