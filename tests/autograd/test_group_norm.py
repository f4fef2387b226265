"""Group norm: statistics of few long rows by pieces on CUDA, and a derivative of our own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand


class Net(nn.Module):
    def __init__(self, affine: bool = True) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, 16, affine=affine)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


def made(affine: bool = True) -> Net:
    torch.manual_seed(0)
    model = Net(affine)
    if affine:
        with torch.no_grad():
            model.norm.weight.normal_()
            model.norm.bias.normal_()
    return model


# The second has groups of more than 16,384 elements, which CUDA takes by pieces.
SHAPES = [(2, 16, 5, 7), (1, 16, 96, 65), (3, 16)]


@pytest.mark.usefixtures("trial_runs")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_last", [False, True])
def test_pieces_give_what_eager_gives(shape: tuple[int, ...], is_last: bool, tmp_path: Path) -> None:
    x = torch.randn(shape) * 3 + 50
    if is_last and len(shape) == 4:
        x = x.to(memory_format=torch.channels_last)
    longhand.generate(made(), (x,), out=tmp_path / "unit", device="cuda", arch="sm_90")  # the trial compares
    kernels = {path.stem for path in (tmp_path / "unit" / "kernels").glob("*.py")}
    assert ("piece_statistics" in kernels) == (shape == SHAPES[1])
    assert "batch_statistics" not in kernels


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_eager(shape: tuple[int, ...], affine: bool) -> None:
    model = made(affine)
    x = (torch.randn(shape) * 3 + 5).requires_grad_()
    d_out = torch.randn(shape)
    expected = torch.autograd.grad(model(x), [x, *model.parameters()], d_out)
    found = torch.autograd.grad(longhand.compile(model)(x), [x, *model.parameters()], d_out)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_step_on_cuda_has_no_call_of_atens(tmp_path: Path) -> None:
    x = torch.randn(SHAPES[1])
    longhand.generate(made(), (x,), out=tmp_path / "unit", device="cuda", arch="sm_90", train=True)
    text = "".join((tmp_path / "unit" / name).read_text() for name in ("model.py", "backward.py"))
    assert (
        "native_group_norm" not in text and "piece_statistics" in (tmp_path / "unit" / "model.py").read_text()
    )
    assert "piece_statistics" not in (tmp_path / "unit" / "backward.py").read_text()  # kept, not made again


def test_the_moments_of_long_rows_are_those_of_eager(tmp_path: Path) -> None:
    def moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (*torch.var_mean(x, (1, 2)), *torch.std_mean(x, dim=(0, 2), correction=0, keepdim=True))

    longhand.generate(
        moments, (torch.randn(3, 130, 300) + 100,), out=tmp_path / "u", device="cuda", arch="sm_90"
    )
    assert "piece" in "".join(path.stem for path in (tmp_path / "u" / "kernels").glob("*.py"))
