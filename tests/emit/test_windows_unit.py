"""Units with pooling of small windows: one kernel with what is around it, whose loops read as a person's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.verify.verification import verify


class Stem(nn.Module):
    """What a ResNet begins with."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 96, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(96)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.norm(self.conv(images)))
        return F.max_pool2d(hidden, 3, stride=2, padding=1)


def stem() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Stem().eval().to(torch.bfloat16), (torch.randn(2, 3, 9, 12, dtype=torch.bfloat16),)


class Halved(nn.Module):
    """Both kinds of pooling, with gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.avg_pool2d(self.conv(images).tanh(), 3, 2, 1, count_include_pad=False) * 2
        return F.max_pool2d(hidden, 2).sin()


def statements(file: Path) -> str:
    """A file's lines but for comments."""
    return "\n".join(line for line in file.read_text().splitlines() if not line.strip().startswith("#"))


def test_pooling_is_one_kernel_with_what_comes_before(tmp_path: Path) -> None:
    module, arguments = stem()
    unit = tmp_path / "unit"
    longhand.generate(module, arguments, out=unit, device="cuda", arch="sm_90", run=False)
    assert "F.max_pool2d(" not in statements(unit / "model.py")
    (kernel,) = [path for path in (unit / "kernels").glob("[a-z]*.py") if "max_pool2d" in path.read_text()]
    text = kernel.read_text()
    for line in (
        "for window_line in tl.static_range(n_window_lines):",
        "for window_column in tl.static_range(n_window_columns):",
    ):
        assert text.count(line) == 1
    assert text.count("tl.load(conv_out_ptr") + text.count("tl.load(\n                conv_out_ptr") == 1
    assert verify(unit, "tests.emit.test_windows_unit:stem").is_right


@pytest.mark.usefixtures("trial_runs")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_those_of_eager(tmp_path: Path, dtype: torch.dtype) -> None:
    unit = tmp_path / "unit"
    images = torch.randn(2, 3, 15, 12, dtype=dtype, requires_grad=True)
    torch.manual_seed(0)
    # The trial run compares results and gradients with eager's.
    longhand.generate(Halved().to(dtype), (images,), out=unit, device="cuda", arch="sm_90", train=True)
    forward = statements(unit / "model.py")
    assert "avg_pool2d(" not in forward
    assert "max_pool2d, indices = torch.ops.aten.max_pool2d_with_indices.default(" in forward


def test_sizes_of_images_may_vary(tmp_path: Path) -> None:
    def pooled(images: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(images * 2, 3, 2, 1) + 1

    unit = tmp_path / "unit"
    images = torch.randn(2, 3, 9, 12)
    sizes = {"images": {2: torch.export.Dim("height", min=4), 3: torch.export.Dim("width", min=4)}}
    longhand.generate(pooled, (images,), out=unit, device="cuda", arch="sm_90", dynamic_shapes=sizes)
    assert "F.max_pool2d(" in (unit / "model.py").read_text()


class FrozenStem(nn.Module):
    """The norm is written out, as torchvision's FrozenBatchNorm2d is: no operation of it has a name."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool, self.out = nn.Conv2d(3, 8, 3), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 1)
        self.scale, self.bias = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.scale.reshape(1, -1, 1, 1) * (self.bias.reshape(1, -1, 1, 1) + 1.5).rsqrt()
        x = torch.relu(self.conv(x) * scale + self.bias.reshape(1, -1, 1, 1) - scale)
        return self.out(self.pool(x))


def test_a_pool_is_in_the_name_of_a_kernel_that_does_more(tmp_path: Path) -> None:
    arguments = (torch.randn(2, 3, 17, 17),)
    longhand.generate(
        FrozenStem().eval(), arguments, out=tmp_path / "unit", device="cuda", arch="sm_90", train=False
    )
    names = {path.stem for path in (tmp_path / "unit" / "kernels").glob("*.py")}
    assert "relu_max_pool2d" in names
