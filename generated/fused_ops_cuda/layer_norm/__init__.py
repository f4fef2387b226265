"""examples.fused_ops.layer_norm as kernels; see README.md."""

from .model import layer_norm

__all__ = ["layer_norm"]
