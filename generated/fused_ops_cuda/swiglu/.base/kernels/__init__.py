"""The kernels, as model.py calls them."""

from .silu_mul import silu_mul

__all__ = ["silu_mul"]
