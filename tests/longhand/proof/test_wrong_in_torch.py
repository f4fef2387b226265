"""Gradients that PyTorch itself gets wrong: the unit is held against what is right, and it is said whose fault it is.

Batch norm's derivative on the CPU is wrong where images are one pixel wide, contiguous, and the gradient lies channels
last (torch 2.11 to 2.13), in float64 too.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.errors import VerificationError
from longhand.factory import Call
from longhand.verify import layouts
from longhand.verify.layouts import SettledLayouts
from longhand.verify.training_check import compare_training

WRONG = "native_batch_norm_backward"


class Spectrum(nn.Module):
    """A norm of columns, whose gradient comes as the transposed one of a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.norm = nn.Parameter(torch.rand(8, 1, 1)), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(x * self.scale).transpose(1, 3))


@pytest.fixture
def call() -> Call:
    torch.manual_seed(0)
    return Call(Spectrum().train(), (torch.randn(3, 8, 12, 1),), {})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_wrong_for_a_layout_is_settled(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(8).to(dtype)
    x = torch.randn(3, 8, 12, 1, dtype=dtype)
    gradient = torch.randn(3, 1, 12, 8, dtype=dtype).transpose(1, 3)
    with SettledLayouts() as settled:
        norm(x).backward(gradient)
    assert settled.wrong == {WRONG: 1}
    assert norm.bias.grad is not None
    torch.testing.assert_close(norm.bias.grad, gradient.sum((0, 2, 3)))


def test_a_norm_of_one_image_is_settled() -> None:
    torch.manual_seed(0)
    x, gradient = torch.randn(1, 8, 12, 1, requires_grad=True), torch.randn(1, 1, 12, 8).transpose(1, 3)
    (right,) = torch.autograd.grad(F.instance_norm(x), x, gradient.contiguous())
    with SettledLayouts() as settled:
        (of_layout,) = torch.autograd.grad(F.instance_norm(x), x, gradient)
    assert settled.wrong == {WRONG: 1}
    torch.testing.assert_close(of_layout, right)


def test_what_is_right_in_every_layout_is_left() -> None:
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last), nn.GroupNorm(2, 8)
    with SettledLayouts() as settled:
        result = norm(conv(torch.randn(2, 3, 9, 9)))
        result.transpose(1, 3).softmax(-1)[:, ::2].sum().backward()
    assert not settled.wrong and result.is_contiguous(memory_format=torch.channels_last)


def test_a_unit_that_is_right_where_torch_is_wrong_is_kept(tmp_path: Path, call: Call) -> None:
    summary = longhand.generate(call.model, call.args, out=tmp_path / "unit", train=True)
    assert "gradient of norm.bias: PyTorch is wrong there" in summary.trial and WRONG in summary.trial
    rows = compare_training(longhand.load(tmp_path / "unit"), call)
    assert all(row.is_right for row in rows)
    told = {row.name for row in rows if row.remark}
    assert "gradient of scale" in told and "gradient of head.weight" not in told


def test_a_unit_that_is_wrong_there_too_is_refused(tmp_path: Path, call: Call) -> None:
    unit = tmp_path / "unit"
    longhand.generate(call.model, call.args, out=unit, train=True, run=False)
    text = (unit / "backward.py").read_text()
    (unit / "backward.py").write_text(text.replace('"norm.bias": d_', '"norm.bias": 1.5 * d_'))
    wrong = [row for row in compare_training(longhand.load(unit), call) if not row.is_right]
    assert [row.name for row in wrong] == ["gradient of norm.bias"]


def test_nothing_is_settled_that_no_decomposition_confirms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setattr(layouts, "_decompositions", dict)
    with pytest.raises(VerificationError, match="does not compute what the model does: gradient of"):
        longhand.generate(call.model, call.args, out=tmp_path / "unit", train=True)
