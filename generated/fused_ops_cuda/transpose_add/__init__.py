"""examples.fused_ops.transpose_add as kernels; see README.md."""

from .model import transpose_add

__all__ = ["transpose_add"]
