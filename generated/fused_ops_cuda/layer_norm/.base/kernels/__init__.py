"""The kernels, as model.py calls them."""

from .add_layer_norm import add_layer_norm

__all__ = ["add_layer_norm"]
