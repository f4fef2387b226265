"""The kernels, as model.py calls them."""

from .scale_bias_softmax import scale_bias_softmax

__all__ = ["scale_bias_softmax"]
