"""examples.fused_ops.cross_entropy as kernels; see README.md."""

from .model import cross_entropy

__all__ = ["cross_entropy"]
