"""examples.fused_ops.softmax as kernels; see README.md."""

from .model import softmax

__all__ = ["softmax"]
