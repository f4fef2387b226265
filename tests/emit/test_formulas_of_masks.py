"""What a kernel's formula says of masks and of numbers that it is given: a unit of EfficientViM said the opposite."""

from __future__ import annotations

import functools
import types

import pytest
import torch
from torch import fx, nn

from benchmarks.readability.units import text_of
from longhand.emit.text.expression import Text
from longhand.emit.text.formula import _FormulaWriter
from longhand.lower.ir import Constant, Pointwise, PointwiseOp, Scalar
from longhand.schedule.names.meanings.settings import numbers_of


class Gate(nn.Module):
    """Squeeze and excitation: of a relu's result the backward pass reads a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.gate = nn.Conv2d(16, 16, 1)
        self.second = nn.Conv2d(16, 8, 3, padding=1, bias=False)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu_(self.first(x))
        mean = x.mean((2, 3), keepdim=True)
        return self.second(x * torch.sigmoid(self.gate(mean))), self.norm(x.mean((2, 3)))


class OfTwoSizes(nn.Module):
    """The same of two images."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return *self.gate(x), *self.gate(x[:, :, :6, :6])


@functools.cache
def titles(device: str) -> str:
    """The first paragraphs of the kernels of the backward pass."""
    files = text_of((OfTwoSizes().train(), (torch.randn(2, 3, 9, 9),), {}), device, train=True)
    kernels = [text for path, text in files.items() if path.startswith("kernels/d_") and path.endswith(".py")]
    return "\n".join(text.partition("\n\n")[0] for text in kernels)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_mask_is_a_comparison(device: str) -> None:
    """It was `is_not_positive = d_relu(x)`, as if a gradient."""
    text = titles(device)
    assert "is_not_positive = x <= 0" in text and "is_not_positive = d_relu" not in text, text


@pytest.mark.parametrize(("dtype", "said"), [(torch.float32, "d * (x > 0)"), (torch.bool, None)])
def test_no_gradient_is_where_a_mask_of_what_is_not_positive_is(dtype: torch.dtype, said: str | None) -> None:
    """It was `d * (is_not_positive > 0)`: the opposite."""
    graph = fx.Graph()
    d, x = graph.placeholder("d"), graph.placeholder("x")
    d.meta["val"], x.meta["val"] = torch.ones(2), torch.ones(2, dtype=dtype)
    writer = types.SimpleNamespace(_is_gradient=lambda node: node is d)
    made = _FormulaWriter._in_closed_form(writer, "relu", {d: Text("d"), x: Text("x")})  # type: ignore[arg-type]
    assert (made and made.text) == said


def test_a_number_that_is_given_has_its_word() -> None:
    """It was `/ 9`, which was so in one of three calls."""
    body = (
        Constant(2.0, torch.float32),
        Scalar(9.0, torch.float32),
        Pointwise(PointwiseOp.DIV, (0, 1), torch.float32, origin="div"),
    )
    assert numbers_of(body, {1: "n_averaged"}) == {("div", 9.0): "n_averaged"}
    assert numbers_of(body, {0: "TWO"}) == {("div", 2.0): "TWO"}
