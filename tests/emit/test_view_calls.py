"""Chains of views as text: what is written is what the calls make, however many of them undo each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from longhand.emit.module.view_calls import write_view
from longhand.emit.text.sizes import SizeWriter
from longhand.loading import load
from longhand.lower.ir import Buffer, BufferKind, View, ViewCall
from longhand.schedule.names.dimensions.dimension_names import DimNamer
from tests.lower.conftest import traced

ATEN = torch.ops.aten
WORDS = DimNamer(traced(torch.neg, (torch.zeros(2, 3, 4),)), {})


def written(x: torch.Tensor, calls: list[ViewCall]) -> str:
    view = View("x", tuple(x.shape), tuple(x.stride()), calls=tuple(calls))
    buffer = Buffer("x", BufferKind.INPUT, x.dtype, tuple(x.shape), tuple(x.stride()))
    return str(write_view(view, "x", SizeWriter(WORDS, {}, {}), buffer))


def made(x: torch.Tensor, calls: list[ViewCall]) -> torch.Tensor:
    for call in calls:
        x = call.target(x, *call.args)
    return x


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        # torch.einsum's way to a batched product
        (
            [
                ViewCall(ATEN.unsqueeze.default, (3,)),
                ViewCall(ATEN.permute.default, ([0, 1, 3, 2],)),
                ViewCall(ATEN.permute.default, ([0, 1, 3, 2],)),
                ViewCall(ATEN.reshape.default, ([6, 4],)),
            ],
            "x.reshape(6, 4)",
        ),
        ([ViewCall(ATEN.transpose.int, (0, 1)), ViewCall(ATEN.transpose.int, (1, 0))], "x"),
        ([ViewCall(ATEN.unsqueeze.default, (1,)), ViewCall(ATEN.squeeze.dim, (1,))], "x"),
        # a depthwise convolution's weight, whose middle dimension is of one element; of two it is no squeeze at all
        (
            [
                ViewCall(ATEN.select.int, (1, 0)),
                ViewCall(ATEN.unsqueeze.default, (1,)),
                ViewCall(ATEN.squeeze.dim, (1,)),
                ViewCall(ATEN.unsqueeze.default, (1,)),
            ],
            "x[:, 0].unsqueeze(1)",
        ),
        (
            [ViewCall(ATEN.squeeze.dim, (1,)), ViewCall(ATEN.unsqueeze.default, (1,))],
            "x.squeeze(1).unsqueeze(1)",
        ),
        # a product of one row: x.unsqueeze(3).permute(0, 3, 1, 2).reshape(6, 1, 4)
        (
            [
                ViewCall(ATEN.unsqueeze.default, (3,)),
                ViewCall(ATEN.permute.default, ([0, 3, 1, 2],)),
                ViewCall(ATEN.reshape.default, ([6, 1, 4],)),
            ],
            "x.reshape(6, 1, 4)",
        ),
        (
            [
                ViewCall(ATEN.unsqueeze.default, (0,)),
                ViewCall(ATEN.permute.default, ([0, 3, 2, 1],)),
                ViewCall(ATEN.reshape.default, ([12, 2],)),
            ],
            "x.transpose(0, 2).reshape(12, 2)",
        ),
        (
            [ViewCall(ATEN.reshape.default, ([6, 4],)), ViewCall(ATEN.unsqueeze.default, (-1,))],
            "x.reshape(6, 4, 1)",
        ),
        (
            [ViewCall(ATEN.permute.default, ([1, 2, 0],)), ViewCall(ATEN.permute.default, ([1, 0, 2],))],
            "x.permute(2, 1, 0)",
        ),
        (
            [ViewCall(ATEN.transpose.int, (0, 1)), ViewCall(ATEN.transpose.int, (1, 2))],
            "x.transpose(0, 1).transpose(1, 2)",
        ),
    ],
)
def test_a_detour_is_not_written(calls: list[ViewCall], text: str) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert written(x, calls) == text
    assert torch.equal(eval(text), made(x, calls))


@pytest.mark.parametrize("seed", range(80))
def test_random_chains_are_what_the_calls_make(seed: int) -> None:
    draw = random.Random(seed)
    x = seen = torch.arange(24.0).reshape(draw.choice([(2, 3, 4), (2, 1, 12)]))
    calls: list[ViewCall] = []
    for _ in range(draw.randrange(1, 9)):
        rank = seen.dim()
        match draw.randrange(4):
            case 0:
                order = draw.sample(range(rank), rank)
                calls.append(
                    ViewCall(ATEN.permute.default, ([dim - rank * draw.randrange(2) for dim in order],))
                )
            case 1:
                calls.append(
                    ViewCall(ATEN.transpose.int, (draw.randrange(rank), draw.randrange(-rank, rank)))
                )
            case 2:
                calls.append(ViewCall(ATEN.unsqueeze.default, (draw.randrange(-rank - 1, rank + 1),)))
            case 3:
                shape = draw.choice([[24], [6, 4], [2, 12], [4, 3, 2], [-1, 8], [1, 24, 1]])
                calls.append(ViewCall(ATEN.reshape.default, (shape,)))
        seen = made(x, calls)
    assert torch.equal(eval(written(x, calls), {"x": x}), seen)


def test_a_dimension_of_one_element_is_not_taken_away_and_put_back() -> None:
    calls = [ViewCall(ATEN.squeeze.dim, (1,)), ViewCall(ATEN.unsqueeze.default, (1,))]
    assert written(torch.zeros(5, 1, 4), calls) == "x"
    assert written(torch.zeros(5, 1, 4), [ViewCall(ATEN.squeeze.dims, ((1,),)), calls[1]]) == "x"


def test_what_an_expand_leaves_as_it_is_is_not_told() -> None:
    """It was x.unsqueeze(1).expand(2, 5, 3, 4)."""
    x = torch.arange(24.0).reshape(2, 3, 4)
    calls = [ViewCall(ATEN.unsqueeze.default, (1,)), ViewCall(ATEN.expand.default, ([2, 5, 3, 4],))]
    assert written(x, calls) == "x.unsqueeze(1).expand(-1, 5, -1, -1)"
    assert torch.equal(eval(written(x, calls)), made(x, calls))


def test_the_only_part_of_a_list_is_a_tensor(unit_folder: Callable[..., Path]) -> None:
    def parts(table: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        column = table[positions]  # a call whose layout only the library knows
        return column, column.unbind(1)[-1], column.split(1, 1)[0]

    given = torch.arange(12).reshape(12, 1), torch.tensor([3, 0, 7])
    found = load(unit_folder(parts, given))(*given)
    for one, expected in zip(found, parts(*given), strict=True):
        torch.testing.assert_close(one, expected, rtol=0, atol=0)
