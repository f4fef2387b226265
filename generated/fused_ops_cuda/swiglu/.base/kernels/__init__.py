"""The kernels, as model.py calls them."""

from .swiglu import swiglu

__all__ = ["swiglu"]
