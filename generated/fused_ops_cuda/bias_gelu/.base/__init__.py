"""examples.fused_ops.bias_gelu as kernels; see README.md."""

from .model import bias_gelu

__all__ = ["bias_gelu"]
