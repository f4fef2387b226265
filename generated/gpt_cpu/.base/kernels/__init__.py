"""The kernels, as model.py calls them."""

from .add_and_layer_norm import add_and_layer_norm
from .embedding_add_and_layer_norm import embedding_add_and_layer_norm
from .gelu import gelu

__all__ = ["add_and_layer_norm", "embedding_add_and_layer_norm", "gelu"]
