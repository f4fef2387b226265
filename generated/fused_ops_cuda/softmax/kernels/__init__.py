"""The kernels, as model.py calls them."""

from .softmax import softmax

__all__ = ["softmax"]
