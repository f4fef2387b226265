"""The kernels, as model.py calls them."""

from .gelu_residual import gelu_residual

__all__ = ["gelu_residual"]
