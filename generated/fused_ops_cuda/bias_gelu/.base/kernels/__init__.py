"""The kernels, as model.py calls them."""

from .bias_gelu import bias_gelu

__all__ = ["bias_gelu"]
