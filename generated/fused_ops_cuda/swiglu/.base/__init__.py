"""examples.fused_ops.swiglu as kernels; see README.md."""

from .model import swiglu

__all__ = ["swiglu"]
