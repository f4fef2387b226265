"""The kernels, as model.py calls them."""

from .add_layer_norm import add_layer_norm
from .add_layer_norm_by_col import add_layer_norm_by_col
from .arange_embedding_add_layer_norm import arange_embedding_add_layer_norm
from .gelu import gelu

__all__ = ["add_layer_norm", "add_layer_norm_by_col", "arange_embedding_add_layer_norm", "gelu"]
