"""The kernels, as model.py calls them."""

from .bias_gelu_add import bias_gelu_add

__all__ = ["bias_gelu_add"]
