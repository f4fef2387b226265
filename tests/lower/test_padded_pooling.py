"""On CUDA the gradient of padded average pooling is computed of contiguous images: channels last, ATen's is wrong.

AveragePool2d.cu looks there for the windows of a pixel without the padding. tests/gpu runs it.
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.readability.units import text_of


class Pooled(nn.Module):
    """Between convolutions of channels enough to lie last, as in Inception and PoolFormer."""

    def __init__(self, padding: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(64, 128, 3, padding=1, bias=False)
        self.pool = nn.AvgPool2d(3, stride=1, padding=padding, count_include_pad=False)
        self.second = nn.Conv2d(128, 128, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.pool(self.first(x).relu())).sum()


def made_for_pooling(padding: int) -> list[str]:
    """What makes the two images that the gradient's call is given."""
    example = (Pooled(padding).train(), (torch.randn(4, 64, 16, 16),), {})
    text = text_of(example, "cuda", train=True)["backward.py"]
    before, _, call = text.partition("torch.ops.aten.avg_pool2d_backward.default(")
    d_out, x = call.split(",")[:2]
    return [before.rpartition(f" {word.strip()} = ")[2].partition(")")[0] for word in (d_out, x)]


def test_padded_images_are_contiguous() -> None:
    assert [".new_empty(" in made for made in made_for_pooling(padding=1)] == [True, True]


def test_other_images_keep_their_layout() -> None:
    assert not any("new_empty(" in made for made in made_for_pooling(padding=0))
