"""The derivative of a 1x1 convolution: two products of rows on CUDA in 16 bits, else the library's call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import longhand
from tests.lower.of_runtime import TEMPLATES

aten = torch.ops.aten


def written(layer: nn.Conv2d, folder: Path, dtype: torch.dtype = torch.bfloat16, device: str = "cuda") -> str:
    """backward.py of the layer between two others, which make a graph of images channels last."""
    wide = max(layer.in_channels, layer.out_channels, 72)
    model = nn.Sequential(
        nn.Conv2d(3, layer.in_channels, 3, bias=False),
        nn.ReLU(),
        layer,
        nn.ReLU(),
        nn.Conv2d(layer.out_channels, wide, 3),
    ).to(dtype)
    arch = "sm_90" if device == "cuda" else None
    x = torch.randn(2, 3, 12, 12, dtype=dtype)
    longhand.generate(model, (x,), out=folder / "unit", device=device, arch=arch, train=True, run=False)
    return (folder / "unit" / "backward.py").read_text()


def test_it_is_two_products(tmp_path: Path) -> None:
    text = written(nn.Conv2d(16, 24, 1, bias=False), tmp_path)
    assert text.count("= conv1x1_backward(") == 1 and text.count("= convolution_backward(") == 2


def test_the_bias_is_summed_by_a_kernel_of_its_own(tmp_path: Path) -> None:
    assert "= conv1x1_backward(" in written(nn.Conv2d(16, 24, 1), tmp_path)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(16, 24, 1, stride=2, bias=False),
        nn.Conv2d(16, 24, 1, padding=1, bias=False),
        nn.Conv2d(16, 24, 3, bias=False),
        nn.Conv2d(16, 16, 1, groups=16, bias=False),
    ],
    ids=["steps", "edges", "windows", "depthwise"],
)
def test_others_are_the_librarys(layer: nn.Conv2d, tmp_path: Path) -> None:
    assert "conv1x1_backward" not in written(layer, tmp_path)


def test_float32_and_the_cpu_are_the_librarys(tmp_path: Path) -> None:
    """Of float32 a convolution may be computed as TF32 where a product may not."""
    layer = nn.Conv2d(16, 24, 1, bias=False)
    assert "conv1x1_backward" not in written(layer, tmp_path / "wide", torch.float32)
    assert "conv1x1_backward" not in written(layer, tmp_path / "cpu", device="cpu")


class _Aten:
    mm = staticmethod(torch.mm)


def _runtime() -> dict[str, Any]:
    found: dict[str, Any] = {"blas": _Aten}
    exec((TEMPLATES / "convolutions.py.jinja").read_text(), found)
    found["blas"] = _Aten
    return found


@pytest.mark.parametrize("wanted", [(True, True, False), (False, True, False), (True, False, False)])
@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (1, 5, 1, 1), (3, 1, 2, 2), (0, 5, 3, 4)])
def test_its_results_are_the_librarys_and_lie_alike(
    shape: tuple[int, ...], wanted: tuple[bool, bool, bool]
) -> None:
    last = torch.channels_last
    x = torch.randn(shape, dtype=torch.float64).to(memory_format=last)
    weight = torch.randn(6, shape[1], 1, 1, dtype=torch.float64)
    d_out = torch.randn(shape[0], 6, *shape[2:], dtype=torch.float64).to(memory_format=last)
    runtime = _runtime()
    mine = runtime["conv1x1_backward"](d_out, x, weight, wanted=wanted)
    theirs = runtime["convolution_backward"](d_out, x, weight, wanted=wanted)
    for one, other in zip(mine, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)
            assert one.is_contiguous(memory_format=last) or one.is_contiguous()


def test_a_part_of_wider_images_is_taken(tmp_path: Path) -> None:
    wide = torch.randn(2, 9, 3, 4, dtype=torch.float64).to(memory_format=torch.channels_last)
    x = wide[:, 2:7]
    weight = torch.randn(6, 5, 1, 1, dtype=torch.float64)
    d_out = torch.randn(2, 6, 3, 4, dtype=torch.float64).to(memory_format=torch.channels_last)
    mine = _runtime()["conv1x1_backward"](d_out, x, weight)
    theirs = aten.convolution_backward.default(
        d_out, x, weight, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, False)
    )
    torch.testing.assert_close(mine[:2], theirs[:2])
