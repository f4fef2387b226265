"""Gradients of slices that fill a tensor are joined: no zeros are made, and results and gradients are eager's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import longhand

pytestmark = pytest.mark.usefixtures("trial_runs")

Part = Callable[[torch.Tensor], torch.Tensor]


def halves(x: torch.Tensor) -> torch.Tensor:
    first, second = x[..., :4], x[..., 4:]
    return torch.cat((-second.exp(), first), dim=-1) * 2 + x.sin()


def every_other(x: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((-odd.exp(), even.sin()), dim=-1).flatten(-2)


def every_third_row(x: torch.Tensor) -> torch.Tensor:
    return x[:, ::3].exp() * x[:, 1::3] + x[:, 2::3].sin()


def selected(x: torch.Tensor) -> torch.Tensor:
    return x[:, 0].exp() * x[:, 1].sin() + x[:, 2] * x[:, 3] + x[:, 4] * x[:, 5]


def twice(x: torch.Tensor) -> torch.Tensor:
    return x[..., :3].exp().sum(-1) * x[..., 3:].sin().sum(-1) + x[..., :5].cos().sum(-1) * x[..., 5:].sum(-1)


def three_parts(x: torch.Tensor) -> torch.Tensor:
    return x[..., 3:5].exp() * x[..., :3].sin().sum(-1, keepdim=True) + x[..., 5:].cos().sum(-1, keepdim=True)


WHOLE: dict[str, Part] = {
    part.__name__: part for part in (halves, every_other, every_third_row, selected, twice, three_parts)
}


def overlapping(x: torch.Tensor) -> torch.Tensor:
    return x[..., :5].exp().sum(-1) + x[..., 3:].sin().sum(-1)


def with_a_gap(x: torch.Tensor) -> torch.Tensor:
    return x[..., :3].exp().sum(-1) + x[..., 4:].sin().sum(-1)


def read_twice(x: torch.Tensor) -> torch.Tensor:
    return x[..., :4].exp() + x[..., :4].sin()


class Sliced(nn.Module):
    """A layer, and slices of what it makes."""

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.part = part
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(self.layer(x))


def written(folder: Path, part: Part) -> str:
    """The unit's own text; its trial run compares results and gradients with eager's."""
    torch.manual_seed(0)
    unit = folder / "unit"
    longhand.generate(Sliced(part), (torch.randn(2, 6, 8),), out=unit, device="cpu", train=True)
    own = [unit / "model.py", unit / "backward.py", *sorted((unit / "kernels").iterdir())]
    return "\n".join(path.read_text() for path in own if path.suffix in (".py", ".cpp"))


@pytest.mark.parametrize("part", WHOLE)
def test_slices_that_fill_a_tensor_are_joined(tmp_path: Path, part: str) -> None:
    text = written(tmp_path, WHOLE[part])
    assert "_scatter" not in text and "filled_start" not in text and "n_filled" not in text


@pytest.mark.parametrize("part", [overlapping, with_a_gap, read_twice], ids=lambda part: part.__name__)
def test_others_are_added_up(tmp_path: Path, part: Part) -> None:
    written(tmp_path, part)


def test_the_gradient_of_rotated_halves_is_one_kernel(tmp_path: Path) -> None:
    def rotated(x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(6.0)[:, None] * torch.arange(8.0)
        first, second = x[..., :4], x[..., 4:]
        return x * at.cos() + torch.cat((-second, first), dim=-1) * at.sin()

    written(tmp_path, rotated)
    # The model's layer, and the gradient that goes into its matrix products.
    kernels = {path.stem for path in (tmp_path / "unit" / "kernels").glob("*.cpp")}
    assert len(kernels - {"column_sum"}) == 2


def test_what_an_empty_slice_adds_is_nothing(tmp_path: Path) -> None:
    """As the rest of a head does that is rotated whole (``k[..., rotary_dim:]``)."""

    def rest(x: torch.Tensor) -> torch.Tensor:
        whole, none = x[..., :8], x[..., 8:]
        return torch.cat((whole.sin(), none.exp()), dim=-1)

    text = written(tmp_path, rest)
    assert "_scatter" not in text and "zero" not in text


def test_what_only_empty_slices_read_has_a_gradient_of_zeros() -> None:
    def step(compile_it: Callable[..., Any]) -> list[torch.Tensor | None]:
        torch.manual_seed(0)
        weight, x = torch.ones(4, requires_grad=True), torch.randn(3, requires_grad=True)
        compile_it(lambda w, x: (w[4:].sum() + x).sin())(weight, x).sum().backward()
        return [weight.grad, x.grad]

    ours, eager = step(longhand.compile), step(lambda function: function)
    assert ours[0] is not None and torch.equal(ours[0], torch.zeros(4))
    torch.testing.assert_close(ours, eager)
