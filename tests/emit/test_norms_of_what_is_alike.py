"""Norms of rows of equal numbers, or of zeros: what DETR's decoders begin with. No sum is left, its count is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.emit.triton.operators import OperatorTable
from longhand.lower.ir import AxisSize, Index, Load, Pointwise, PointwiseOp


class Queries(nn.Module):
    """The first norm of a decoder whose queries begin as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(7, 24)
        self.norm = nn.LayerNorm(24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = self.places.weight[None].expand(x.shape[0], -1, -1)
        return self.norm(torch.zeros_like(places)) + places + x


class Alike(nn.Module):
    """Each row is one number, as often as there are columns."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x[:, :1].expand(-1, 24), (24,), self.weight)


def kernels(tmp_path: Path, model: nn.Module, x: torch.Tensor) -> list[str]:
    """Their texts, of a unit whose kernels have been compiled for sm_90."""
    longhand.generate(model.eval(), (x,), out=tmp_path / "unit", device="cuda", arch="sm_90")
    return [path.read_text() for path in (tmp_path / "unit" / "kernels").glob("[a-z]*.py")]


@pytest.mark.filterwarnings("error")  # of a kernel that does not compile
def test_zeros_are_not_counted(tmp_path: Path) -> None:
    (text,) = kernels(tmp_path, Queries(), torch.randn(3, 7, 24))
    assert "@triton.jit" in text and "mean" not in text and "rsqrt" not in text


def test_a_weight_that_is_infinite_is_seen(tmp_path: Path) -> None:
    model, x = Queries().eval(), torch.randn(3, 7, 24)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu")
    with torch.no_grad():
        model.norm.weight[3], model.norm.weight[5] = torch.inf, torch.nan
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(unit(x), model(x), equal_nan=True)


@pytest.mark.filterwarnings("error")
def test_a_number_is_divided_by_a_count(tmp_path: Path) -> None:
    (text,) = kernels(tmp_path, Alike(), torch.randn(3, 24))
    assert "@triton.jit" in text


def test_a_quotient_by_a_count_that_is_rounded_is_exact() -> None:
    """tl.div_rn takes no integer, as which counts come."""
    quotient = Pointwise(PointwiseOp.DIV, (0, 1), torch.float32)
    body = (
        Load("x", Index(0, (("i", 1),)), torch.float32),
        AxisSize(("j",), torch.float32),
        quotient,
        Pointwise(PointwiseOp.FLOOR, (2,), torch.float32),
    )
    assert OperatorTable(body)(quotient).template == "tl.div_rn({0}, tl.cast({1}, tl.float32))"
