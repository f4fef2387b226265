"""The kernels, as model.py calls them."""

from .add_and_layer_norm import add_and_layer_norm
from .column_sum import column_sum
from .cross_entropy import cross_entropy
from .cross_entropy_and_gradient import cross_entropy_and_gradient
from .cross_entropy_n_counted import cross_entropy_n_counted
from .d_add_layer_norm import d_add_layer_norm
from .d_gelu import d_gelu
from .d_layer_norm import d_layer_norm
from .d_token_embedding_weight import d_token_embedding_weight
from .embedding_add_and_layer_norm import embedding_add_and_layer_norm
from .gelu import gelu
from .make_d_qkv import make_d_qkv
from .pad import pad

__all__ = [
    "add_and_layer_norm",
    "column_sum",
    "cross_entropy",
    "cross_entropy_and_gradient",
    "cross_entropy_n_counted",
    "d_add_layer_norm",
    "d_gelu",
    "d_layer_norm",
    "d_token_embedding_weight",
    "embedding_add_and_layer_norm",
    "gelu",
    "make_d_qkv",
    "pad",
]
