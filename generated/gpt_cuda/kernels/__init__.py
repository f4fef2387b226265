"""The kernels, as model.py calls them."""

from .add_layer_norm import add_layer_norm
from .add_layer_norm_only import add_layer_norm_only
from .embedding_add_layer_norm import embedding_add_layer_norm
from .gelu import gelu
from .pad import pad

__all__ = ["add_layer_norm", "add_layer_norm_only", "embedding_add_layer_norm", "gelu", "pad"]
