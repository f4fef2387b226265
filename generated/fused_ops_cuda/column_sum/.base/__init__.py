"""examples.fused_ops.column_sum as kernels; see README.md."""

from .model import column_sum

__all__ = ["column_sum"]
