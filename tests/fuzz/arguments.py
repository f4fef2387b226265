"""The tensors that a random program has: what they hold, how they lie in memory, and whose they are."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable

import torch
from torch import Tensor


class Content(enum.Enum):
    """What an argument holds."""

    NORMAL = "normal"
    SPECIAL = "special"  # NaN, infinities and zeros among normal numbers
    WHOLE = "whole"  # -20 to 20
    WEIGHT = "weight"  # what a layer's weight begins with: less, the more numbers a result is made of
    POSITIVE = "positive"


class Layout(enum.Enum):
    """How an argument lies in memory."""

    CONTIGUOUS = "contiguous"
    TRANSPOSED = "transposed"  # its last two dimensions
    SLICED = "sliced"  # every other column of something wider, from the third on
    OFFSET = "offset"  # all but the first row
    CHANNELS_LAST = "channels last"
    PART_OF_CHANNELS = "part of channels"  # of images that are channels last, from the second channel on


class Role(enum.Enum):
    """What a program has a tensor from."""

    GIVEN = "given"
    PARAMETER = "parameter"
    BUFFER = "buffer"


@dataclasses.dataclass(frozen=True)
class Argument:
    """One tensor that a program takes.

    Attributes:
        name: As in the text.
        dtype: Its element type.
        shape: Its sizes.
        layout: How it lies in memory.
        content: What it holds.
        trains: Whether it requires grad.
        role: Whether it is given, or the module's own.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    layout: Layout = Layout.CONTIGUOUS
    content: Content = Content.NORMAL
    trains: bool = False
    role: Role = Role.GIVEN

    def make(self, seed: int, device: str = "cpu") -> Tensor:
        """The tensor, the same for the same seed."""
        generator = torch.Generator().manual_seed(seed * 1009 + sum(map(ord, self.name)))
        tensor = self._laid_out(lambda shape: self._filled(shape, generator)).to(device)
        return tensor.requires_grad_(self.trains)

    def _filled(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        if self.dtype is torch.bool:
            return torch.rand(shape, generator=generator) > 0.5
        if not self.dtype.is_floating_point or self.content is Content.WHOLE:
            low = 0 if self.dtype is torch.uint8 else -20
            return torch.randint(low, 20, shape, generator=generator).to(self.dtype)
        values = torch.randn(shape, generator=generator).to(self.dtype)
        if self.content is Content.WEIGHT and len(shape) > 1:
            return values / math.sqrt(max(1, math.prod(shape[1:])))
        if self.content is Content.POSITIVE:
            return values.abs() + 0.5
        if self.content is Content.SPECIAL:
            kind = torch.rand(shape, generator=generator)
            for limit, number in (
                (0.04, float("inf")),
                (0.08, float("-inf")),
                (0.12, float("nan")),
                (0.2, 0.0),
            ):
                values = torch.where((kind < limit) & (kind >= limit - 0.04), number, values).to(self.dtype)
        return values

    def _laid_out(self, fill: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
        shape = self.shape
        match self.layout:
            case Layout.CHANNELS_LAST if len(shape) > 2:
                return fill((shape[0], *shape[2:], shape[1])).movedim(-1, 1)
            case Layout.PART_OF_CHANNELS if len(shape) > 2:
                return fill((shape[0], *shape[2:], shape[1] + 3)).movedim(-1, 1)[:, 1:-2]
            case Layout.TRANSPOSED if len(shape) > 1:
                return fill((*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)
            case Layout.SLICED if shape:
                return fill((*shape[:-1], 2 * shape[-1] + 3))[..., 2 : 2 + 2 * shape[-1] : 2]
            case Layout.OFFSET if shape:
                return fill((shape[0] + 1, *shape[1:]))[1:]
        return fill(shape)

    def __str__(self) -> str:
        words = [str(self.dtype).removeprefix("torch."), str(list(self.shape))]
        words += [] if self.role is Role.GIVEN else [self.role.value]
        words += [] if self.layout is Layout.CONTIGUOUS else [self.layout.value]
        words += [] if self.content is Content.NORMAL else [self.content.value]
        return f"{self.name}: {' '.join(words)}{' requires grad' * self.trains}"
