"""Functions that are one kernel each: what memory bandwidth allows is what they should cost.

Each function has a factory of the same name in `small` and in `default`, which returns it with inputs of that size:
`longhand generate examples.fused_ops:small.softmax --out generated/softmax`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F

Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


def softmax(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Attention weights from scaled and biased scores."""
    scores = x * 0.125 + w
    return torch.softmax(scores, dim=-1)


def layer_norm(x: torch.Tensor, r: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The norm after a residual sum."""
    h = x + r
    return F.layer_norm(h, (h.shape[-1],), weight, bias)


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of each row, in float32."""
    return F.cross_entropy(logits.float(), labels, reduction="none")


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Root-mean-square norm as PyTorch has it."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps=1e-6)


def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A gate and what it lets through."""
    return F.silu(a) * b


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Exact GELU of a biased sum."""
    return F.gelu(x + bias)


def column_sum(x: torch.Tensor) -> torch.Tensor:
    """A sum down the columns, as in the gradient of a bias."""
    return (x * 2).sum(0)


def transpose_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A transposition and a sum: reads along one axis, writes along the other."""
    return x.t().contiguous() + y


def gelu_residual(x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """The tanh form of GELU on a biased sum, and the residual."""
    return F.gelu(x + bias, approximate="tanh") + residual


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Factories for one choice of element type and size.

    Attributes:
        dtype: Of all floating-point inputs.
        scale: Multiplies every size: 1 suits a CPU, 4 an H200.
    """

    dtype: torch.dtype
    scale: int

    def _randn(self, *sizes: int) -> torch.Tensor:
        return torch.randn(*(size * self.scale for size in sizes), dtype=self.dtype)

    def softmax(self) -> Case:
        return softmax, (self._randn(4096, 1024), self._randn(1024))

    def layer_norm(self) -> Case:
        x, r = self._randn(4096, 1024), self._randn(4096, 1024)
        return layer_norm, (x, r, self._randn(1024), self._randn(1024))

    def cross_entropy(self) -> Case:
        n_classes = 8192 * self.scale
        return cross_entropy, (self._randn(2048, 8192), torch.randint(n_classes, (2048 * self.scale,)))

    def rms_norm(self) -> Case:
        return rms_norm, (self._randn(4096, 1024), self._randn(1024))

    def swiglu(self) -> Case:
        return swiglu, (self._randn(4096, 2048), self._randn(4096, 2048))

    def bias_gelu(self) -> Case:
        return bias_gelu, (self._randn(4096, 2048), self._randn(2048))

    def column_sum(self) -> Case:
        return column_sum, (self._randn(16384, 512),)

    def transpose_add(self) -> Case:
        return transpose_add, (self._randn(2048, 2048), self._randn(2048, 2048))

    def gelu_residual(self) -> Case:
        return gelu_residual, (self._randn(4096, 2048), self._randn(2048), self._randn(4096, 2048))


small = Sizes(torch.float32, scale=1)
default = Sizes(torch.bfloat16, scale=4)
FUNCTIONS = (
    softmax,
    layer_norm,
    cross_entropy,
    rms_norm,
    swiglu,
    bias_gelu,
    column_sum,
    transpose_add,
    gelu_residual,
)
