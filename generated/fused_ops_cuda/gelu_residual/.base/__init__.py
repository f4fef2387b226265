"""examples.fused_ops.gelu_residual as kernels; see README.md."""

from .model import gelu_residual

__all__ = ["gelu_residual"]
