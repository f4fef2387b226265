"""examples.fused_ops.rms_norm as kernels; see README.md."""

from .model import rms_norm

__all__ = ["rms_norm"]
