"""The kernels, as model.py calls them."""

from .exp_normalize import exp_normalize

__all__ = ["exp_normalize"]
