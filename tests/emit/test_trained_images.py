"""Training steps of convolutions on CUDA: images channels last, nothing of their size in float32, biases on the way."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.verify.verification import verify


class Block(nn.Module):
    """Two convolutions, each with a norm by the batch's statistics, around a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + x)


class Net(nn.Module):
    """A stem, the largest of each four, blocks, a pooling, a head."""

    def __init__(self, channels: int = 72) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(channels) for _ in range(2))
        self.head = nn.Linear(channels, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        out = F.max_pool2d(self.stem(images), 2)
        for block in self.blocks:
            out = block(out)
        return self.head(F.avg_pool2d(out, 2).mean((2, 3)))


def case(size: int = 40) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """What verify makes of this module's name."""
    torch.manual_seed(0)
    return Net().train(), (torch.randn(2, 3, size, size),)


@functools.cache
def _written(folder: Path) -> Path:
    model, args = case()
    longhand.generate(model, args, out=folder, device="cuda", arch="sm_90", train=True, run=False)
    return folder


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unit for CUDA."""
    return _written(tmp_path_factory.mktemp("trained_images") / "unit")


def test_the_interpreter_finds_eagers_gradients(unit: Path) -> None:
    assert verify(unit, "tests.emit.test_trained_images:case").is_right


def test_images_are_channels_last_and_nothing_is_laid_out_again(unit: Path) -> None:
    text = (unit / "backward.py").read_text()
    passes = text[text.index("_backward(model, saved") :]
    assert passes.count("convolution_backward(") >= 3 and "torch.ops.aten.convolution_backward" not in text
    assert (
        passes.count("channels_last(") == 2 and "kernels.to_channels_last(\n        saved.images, " in passes
    )
    assert "channels_last(\n        torch.ops.aten.max_pool2d_with_indices_backward" in passes  # as it comes
    assert "transpose" not in passes + (unit / "model.py").read_text()
    assert passes.count(".contiguous(") == 1 and "conv2d(" in (unit / "model.py").read_text()


def test_what_is_normalized_is_computed_again_by_both_who_read_it(unit: Path) -> None:
    text = (unit / "backward.py").read_text()
    assert "d_batch_norm_relu(" in text and not re.search(r"\bnormalized\b", text)
    kernel = (unit / "kernels" / "d_batch_norm_relu.py").read_text()
    assert "normalized = (" in kernel and "normalized_ptr" not in kernel


def test_the_gradient_of_a_bias_is_added_up_by_a_kernel(unit: Path) -> None:
    text = (unit / "backward.py").read_text()
    assert "wanted=(True, True, True)" not in text and "conv2_bias" in text
