"""Chains of convolutions with what people write around them: bias, activation, norm, pooling, residual, in all orders.

Each is a few blocks long, so that what a block hands to the next is part of what is measured, and wide enough for
tensor cores. Of one, two and three dimensions, transposed ones, and depthwise ones.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.models.families import Family

__all__ = ["CHAINS"]

_WIDTH = 128
_N_BLOCKS = 3


class Residual(nn.Module):
    """A block, and what it is given added to its result."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + self.parts(images)


class ActivatedResidual(Residual):
    """A block as in ResNet: the sum is activated."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(super().forward(images))


class ChannelNorm(nn.Module):
    """Layer norm over the channels of images, as in ConvNeXt."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.norm(images.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Chain(nn.Module):
    """Blocks one after the other."""

    def __init__(self, block: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(block() for _ in range(_N_BLOCKS)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.blocks(images)


def _conv(n_dims: int = 2, **more: object) -> nn.Module:
    """A convolution of three positions along each dimension that keeps the size."""
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[n_dims - 1]
    return kind(_WIDTH, _WIDTH, 3, padding=1, **more)  # type: ignore[arg-type]


def _transposed(n_dims: int = 2, **more: object) -> nn.Module:
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[n_dims - 1]
    return kind(_WIDTH, _WIDTH, 3, padding=1, **more)  # type: ignore[arg-type]


def _chain(*size: int, block: Callable[[], nn.Module]) -> Family:
    """A chain over images of a size, one image or sixteen."""
    return Family(lambda: Chain(block), lambda batch: {"images": torch.randn(batch, _WIDTH, *size)}, 1, 16)


def _of(*parts: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*(part() for part in parts))


def _norm() -> nn.Module:
    return nn.BatchNorm2d(_WIDTH)


def _groups() -> nn.Module:
    return nn.GroupNorm(32, _WIDTH)


def _plain() -> nn.Module:
    return _conv(bias=False)


def _depthwise() -> nn.Module:
    return _conv(bias=False, groups=_WIDTH)


def _pointwise() -> nn.Module:
    return nn.Conv2d(_WIDTH, _WIDTH, 1)


_IMAGE = (56, 56)
_VOLUME = (12, 24, 24)

CHAINS: dict[str, Family] = {
    "conv relu": _chain(*_IMAGE, block=_of(_conv, nn.ReLU)),
    "conv silu pool": _chain(64, 64, block=_of(_conv, nn.SiLU, lambda: nn.MaxPool2d(2))),
    "conv gelu mean pool": _chain(64, 64, block=_of(_conv, nn.GELU, lambda: nn.AvgPool2d(2))),
    "conv norm relu": _chain(*_IMAGE, block=_of(_plain, _norm, nn.ReLU)),
    "norm relu conv": _chain(*_IMAGE, block=_of(_norm, nn.ReLU, _plain)),
    "relu conv norm": _chain(*_IMAGE, block=_of(nn.ReLU, _conv, _norm)),
    "conv groups silu": _chain(*_IMAGE, block=_of(_conv, _groups, nn.SiLU)),
    "residual conv norm": _chain(
        *_IMAGE, block=lambda: ActivatedResidual(_plain(), _norm(), nn.ReLU(), _plain(), _norm())
    ),
    "residual groups conv": _chain(
        *_IMAGE, block=lambda: Residual(_groups(), nn.SiLU(), _conv(), _groups(), nn.SiLU(), _conv())
    ),
    "depthwise norm swish": _chain(
        *_IMAGE, block=_of(_depthwise, _norm, nn.Hardswish, _pointwise, nn.Hardswish)
    ),
    "convnext": _chain(
        *_IMAGE,
        block=lambda: Residual(_depthwise(), ChannelNorm(_WIDTH), _pointwise(), nn.GELU(), _pointwise()),
    ),
    "transposed relu": _chain(*_IMAGE, block=_of(_transposed, nn.ReLU)),
    "transposed norm elu": _chain(*_IMAGE, block=_of(lambda: _transposed(bias=False), _norm, nn.ELU)),
    "signal conv gelu": _chain(4096, block=_of(lambda: _conv(1), nn.GELU)),
    "volume conv relu": _chain(*_VOLUME, block=_of(lambda: _conv(3), nn.ReLU)),
    "volume groups silu": _chain(*_VOLUME, block=_of(lambda: _conv(3), _groups, nn.SiLU)),
    "volume transposed": _chain(*_VOLUME, block=_of(lambda: _transposed(3), nn.LeakyReLU)),
}
CHAINS = {f"chain {name}": family for name, family in CHAINS.items()}
