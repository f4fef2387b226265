"""Numbers in which modules differ are told by sizes of what these are given or hold, where such tell them in all."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from longhand.lower.ir import Buffer, BufferKind, Extern, View, ViewCall
from longhand.schedule.functions.alike_steps import AlikeSteps, SiteSteps
from longhand.schedule.functions.sizes.told_sizes import ToldBlocks, ToldSize, with_told_sizes
from longhand.schedule.plan import Launch

aten = torch.ops.aten


def alike(*widths: int, bounds: list[tuple[int, int]], channels: bool = True) -> AlikeSteps:
    """Modules that each cut a piece out of what they are given."""
    sites = []
    for number, (start, end) in enumerate(bounds):
        piece = View(
            f"x{number}", (2, end - start), (1, 1), calls=(ViewCall(aten.slice.Tensor, (1, start, end)),)
        )
        step = Extern(aten.relu.default, (piece,), (), (f"y{number}",))
        weights = {f"weight{number}": "conv.weight"} if channels else {}
        sites.append(SiteSteps((step,), {}, (f"x{number}",), weights, (f"y{number}",)))
    names = range(len(widths))
    return AlikeSteps(
        tuple(sites),
        (tuple(f"x{number}" for number in names),),
        (tuple(f"y{number}" for number in names),),
        (),
        (),
    )


def buffer(name: str, *shape: int) -> Buffer:
    return Buffer(name, BufferKind.INTERMEDIATE, torch.float32, shape, (1,) * len(shape))


def told(
    *widths: int, bounds: list[tuple[int, int]], word: str | None = None, **given: Any
) -> list[list[Any]]:
    """Where each module's piece begins and ends."""
    buffers = {}
    for number, width in enumerate(widths):
        shapes = {"x": (2, 3 * width + 4), "y": (2, 7), "weight": (width, 3)}
        buffers |= {f"{name}{number}": buffer(f"{name}{number}", *shape) for name, shape in shapes.items()}
    found = with_told_sizes(
        alike(*widths, bounds=bounds, **given),
        buffers,
        lambda name, rank: (None, word if name == "x0" else None),
        {"x0": "x"},
        {"channels"},
    )
    steps = [site.steps[0] for site in found.sites]
    return [list(step.args[0].calls[0].args[1:]) for step in steps if isinstance(step, Extern)]


def test_a_weight_tells_numbers() -> None:
    (start, end), others = told(96, 192, bounds=[(96, 192), (192, 384)])
    assert [start, end] == [96, 192] and others == [192, 384]
    assert start.terms == ((1, "conv_channels", 96),) and not start.plus
    assert end.terms == ((2, "conv_channels", 96),) and others[1].terms == ((2, "conv_channels", 192),)


def test_a_little_more_than_a_size_is_told_too() -> None:
    (start, _), _ = told(96, 192, bounds=[(193, 196), (385, 388)])
    assert isinstance(start, ToldSize) and (start.terms, start.plus) == (((2, "conv_channels", 96),), 1)


def test_a_word_that_a_size_has_already_is_taken() -> None:
    (_, end), _ = told(96, 192, bounds=[(0, 292), (0, 580)], word="n_features")
    assert isinstance(end, ToldSize) and end.terms == ((1, "n_features", 292),)


def test_a_word_that_stands_for_two_sizes_tells_neither() -> None:
    def words(name: str, rank: int) -> tuple[str | None, ...]:
        return {"x0": (None, "n_features"), "y0": ("n_lines", "n_features")}.get(name, (None,) * rank)

    widths, bounds = (96, 192), [(0, 292), (0, 580)]
    shapes = {"x": [(2, 292), (2, 580)], "y": [(7, 7), (9, 9)], "weight": [(96, 3), (192, 3)]}
    buffers = {
        f"{name}{n}": buffer(f"{name}{n}", *shape)
        for name, of in shapes.items()
        for n, shape in enumerate(of)
    }
    found = with_told_sizes(alike(*widths, bounds=bounds), buffers, words, {"x0": "x"}, set())
    (step,) = found.sites[0].steps
    assert isinstance(step, Extern)
    end = step.args[0].calls[0].args[2]
    assert isinstance(end, ToldSize) and end.terms == ((1, "x_channels", 292),)


def test_the_sum_of_two_sizes_is_told_by_both() -> None:
    (_, end), _ = told(96, 192, bounds=[(0, 292 + 3 * 96), (0, 580 + 3 * 192)])
    assert isinstance(end, ToldSize)
    assert end.terms == ((1, "x_channels", 292), (3, "conv_channels", 96))


@pytest.mark.parametrize(
    "bounds",
    [
        [(96, 130), (192, 130)],  # the same number in both is none that a size tells
        [(96, 130), (192, 999)],  # nor is one that no size has anything to do with
    ],
)
def test_other_numbers_stay(bounds: list[tuple[int, int]]) -> None:
    for start, end in told(96, 192, bounds=bounds):
        assert isinstance(start, ToldSize) and type(end) is int


def test_numbers_are_told_alike_in_all_modules_or_in_none() -> None:
    # What is 2 * 96 in the first and 3 * 192 in the second is the same size of nothing.
    assert all(type(end) is int for _, end in told(96, 192, bounds=[(0, 192), (0, 576)]))


def test_small_numbers_are_not_explained() -> None:
    assert all(type(end) is int for _, end in told(4, 8, bounds=[(0, 4), (0, 8)]))


def test_a_stride_over_what_a_launch_walks_is_no_multiple_of_something_else() -> None:
    """4 * 130 lines of 64 are as many as 8 * 65 of them, which the launch is given."""
    buffers, sites = {}, []
    for number, n_rows in enumerate((65, 37)):
        step = Launch(
            "copy", (f"x{number}", f"y{number}"), (2, 8, n_rows, 64), (n_rows * 512, n_rows * 64 + 64)
        )
        weights = {f"weight{number}": "conv.weight"}
        sites.append(SiteSteps((step,), {}, (f"x{number}",), weights, (f"y{number}",)))
        shapes = {"x": (2 * n_rows, 512), "y": (2, 7), "weight": (n_rows + 1, 3)}
        buffers |= {f"{name}{number}": buffer(f"{name}{number}", *shape) for name, shape in shapes.items()}
    given = tuple(((f"{name}0", f"{name}1"),) for name in "xy")
    found = with_told_sizes(
        AlikeSteps(tuple(sites), *given, (), ()), buffers, lambda _, rank: (None,) * rank, {"x0": "x"}, set()
    )
    (step,) = found.sites[0].steps
    assert isinstance(step, Launch)
    over_rows, further = step.ints
    assert type(over_rows) is int and isinstance(further, ToldBlocks)


@pytest.mark.parametrize("batch", [32, 16])
def test_a_batch_that_is_as_large_as_a_layer_is_wide_tells_nothing(batch: int) -> None:
    """What a layer of 32 filters adds to its channels is its filters, whatever the batch."""
    buffers, sites = {}, []
    for number, width in enumerate((64, 96, 128)):
        step = Launch("cat", (f"x{number}", f"y{number}"), (batch, width + 32), ())
        sites.append(
            SiteSteps((step,), {}, (f"x{number}",), {f"weight{number}": "conv.weight"}, (f"y{number}",))
        )
        shapes = {"x": (batch, width), "y": (batch, width + 32), "weight": (32, 3)}
        buffers |= {f"{name}{number}": buffer(f"{name}{number}", *shape) for name, shape in shapes.items()}
    given = tuple((tuple(f"{name}{number}" for number in range(3)),) for name in "xy")
    words = {"x0": ("batch", "width"), "y0": ("batch", None)}
    found = with_told_sizes(
        AlikeSteps(tuple(sites), *given, (), ()), buffers, lambda name, _: words[name], {"x0": "x"}, set()
    )
    (step,) = found.sites[0].steps
    assert isinstance(step, Launch)
    assert step.sizes[1].terms == ((1, "width", 64), (1, "conv_channels", 32))


def test_a_batch_is_no_part_of_a_width() -> None:
    """Where no weight is as wide, the number stays one."""
    widths, bounds = (96, 192), [(0, 292 + 20), (0, 580 + 20)]
    buffers = {}
    for number, width in enumerate(widths):
        shapes = {"x": (20, 3 * width + 4), "y": (20, 7), "weight": (width, 3)}
        buffers |= {f"{name}{number}": buffer(f"{name}{number}", *shape) for name, shape in shapes.items()}
    found = with_told_sizes(
        alike(*widths, bounds=bounds),
        buffers,
        lambda name, rank: ("batch", None) if name == "x0" else (None,) * rank,
        {"x0": "x"},
        set(),
    )
    (step,) = found.sites[0].steps
    assert isinstance(step, Extern) and type(step.args[0].calls[0].args[2]) is int
