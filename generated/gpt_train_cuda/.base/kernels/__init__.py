"""The kernels, as model.py calls them."""

from .add_and_layer_norm import add_and_layer_norm
from .column_sum import column_sum
from .column_sum_few_rows import column_sum_few_rows
from .cross_entropy import cross_entropy
from .cross_entropy_and_gradient import cross_entropy_and_gradient
from .cross_entropy_n_counted import cross_entropy_n_counted
from .d_add_layer_norm import d_add_layer_norm
from .d_embedding import d_embedding
from .d_gelu import d_gelu
from .d_layer_norm import d_layer_norm
from .d_token_embedding_weight import d_token_embedding_weight
from .embedding_add_and_layer_norm import embedding_add_and_layer_norm
from .fill_padding import fill_padding
from .gelu import gelu
from .make_d_qkv import make_d_qkv
from .pad_head import pad_head

__all__ = [
    "add_and_layer_norm",
    "column_sum",
    "column_sum_few_rows",
    "cross_entropy",
    "cross_entropy_and_gradient",
    "cross_entropy_n_counted",
    "d_add_layer_norm",
    "d_embedding",
    "d_gelu",
    "d_layer_norm",
    "d_token_embedding_weight",
    "embedding_add_and_layer_norm",
    "fill_padding",
    "gelu",
    "make_d_qkv",
    "pad_head",
]
