"""What training keeps of batch norm on CUDA: images as convolutions make them and take them, and nothing in between."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.functionalize.batch_normalized import batch_normalized_op
from longhand.options import Device
from tests.autograd.test_kept_parts import cut

BATCH, CHANNELS, SIZE = 2, 8, 10


def images(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(BATCH, CHANNELS, SIZE, SIZE, dtype=dtype)


class Padded(nn.Module):
    """What a depthwise convolution reads is clamped and padded, as TensorFlow's models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.filter = nn.Conv2d(CHANNELS, CHANNELS, 3, groups=CHANNELS, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.norm(self.expand(x)).clamp(0, 6)
        return self.filter(nn.functional.pad(features, (1, 1, 1, 1)))


def chain() -> nn.Module:
    layers = [
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False),
        nn.BatchNorm2d(CHANNELS),
        nn.ReLU(),
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False),
    ]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_normalized_is_not_kept_and_what_is_convolved_is(dtype: torch.dtype) -> None:
    for model, size in ((chain(), SIZE), (Padded(), SIZE + 2)):
        cutting = cut(model.to(dtype), images(dtype))
        whole = [node.meta["val"].shape[-1] for node in cutting.saved if node.meta["val"].dim() == 4]
        assert sorted(whole) == [SIZE, size]  # the first convolution's result, and the second's argument
        assert not any(node.target is batch_normalized_op for node in cutting.saved)
        assert [node.target for node in cutting.recomputed].count(batch_normalized_op) == 1


def test_on_the_cpu_the_librarys_result_is_kept_as_it_is() -> None:
    cutting = cut(Padded(), images(), device=Device.CPU)
    assert not any(node.target is batch_normalized_op for node in cutting.joint.graph.nodes)


def test_few_pixels_are_left_to_the_library() -> None:
    """There the op that makes the statistics makes the images as well: nothing is done twice."""
    cutting = cut(chain(), torch.randn(BATCH, CHANNELS, 3, 5))
    assert not any(node.target is batch_normalized_op for node in cutting.joint.graph.nodes)


def derivatives(folder: Path, dtype: torch.dtype) -> list[str]:
    model = chain().to(dtype)
    longhand.generate(model, (images(dtype),), out=folder, device="cuda", arch="sm_90", train=True)
    return [path.read_text() for path in (folder / "kernels").glob("d_batch_norm_relu*.py")]


def test_the_derivative_of_a_relu_reads_its_sign_from_what_is_normalized(tmp_path: Path) -> None:
    texts = derivatives(tmp_path / "unit", torch.float32)
    assert texts and all("<= 0.0" in text and "is_not_positive" not in text for text in texts)


def test_a_sign_is_not_rounded_where_rounding_makes_nothing_zero(tmp_path: Path) -> None:
    """bfloat16 has float32's exponents; of float16 a small number is zero in memory, and that is what eager asks."""
    wide = derivatives(tmp_path / "bfloat16", torch.bfloat16)
    assert wide and all("<= 0.0" in text and ".to(tl.bfloat16)" not in text for text in wide)
    narrow = derivatives(tmp_path / "float16", torch.float16)
    assert narrow and all(".to(tl.float16)" in text for text in narrow)


@pytest.mark.parametrize(
    ("shape", "affine"), [((2, 3, 4, 4), True), ((2, 3, 17), False), ((1, 3, 2, 3, 4), True)]
)
def test_the_op_is_what_torch_normalizes(shape: tuple[int, ...], affine: bool) -> None:
    x = torch.randn(shape, dtype=torch.float64)
    weight, bias = (torch.randn(3, dtype=torch.float64) if affine else None for _ in range(2))
    out, mean, rstd = torch.ops.aten._native_batch_norm_legit.no_stats(x, weight, bias, True, 0.1, 1e-5)
    torch.testing.assert_close(batch_normalized_op(x, weight, bias, mean, rstd), out)


@pytest.mark.parametrize("device", [Device.CPU, Device.CUDA])
def test_of_few_pixels_what_is_normalized_is_not_written_for_the_derivative(device: Device) -> None:
    """The library's call has written the statistics: with x they are as small as x normalized, and not written anew."""
    convolutions = [nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False) for _ in range(2)]
    model = nn.Sequential(convolutions[0], nn.BatchNorm2d(CHANNELS), nn.Tanh(), convolutions[1])
    cutting = cut(model, torch.randn(BATCH, CHANNELS, 1, 1), device=device)
    kept = {node.name.split("_default")[0] for node in cutting.saved}
    assert kept == {"conv2d", "getitem_1", "getitem_2", "tanh"}
