"""examples.attention.Attention as kernels; see README.md."""

from .model import Attention

__all__ = ["Attention"]
