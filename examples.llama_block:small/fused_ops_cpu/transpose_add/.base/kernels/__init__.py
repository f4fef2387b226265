"""The kernels, as model.py calls them."""

from .add import add

__all__ = ["add"]
