"""The kernels, as model.py calls them."""

from .add_and_layer_norm import add_and_layer_norm
from .column_sum import column_sum
from .column_sum_weight import column_sum_weight
from .cross_entropy import cross_entropy
from .cross_entropy_and_d_cross_entropy import cross_entropy_and_d_cross_entropy
from .cross_entropy_n_counted import cross_entropy_n_counted
from .d_add_layer_norm import d_add_layer_norm
from .d_embedding import d_embedding
from .d_layer_norm import d_layer_norm
from .d_qkv_and_bias import d_qkv_and_bias
from .d_token_embedding_weight import d_token_embedding_weight
from .embedding_add_and_layer_norm import embedding_add_and_layer_norm
from .fill_padding import fill_padding
from .gelu import gelu
from .gelu_and_d_gelu_column_sum import gelu_and_d_gelu_column_sum
from .pad_head import pad_head

__all__ = [
    "add_and_layer_norm",
    "column_sum",
    "column_sum_weight",
    "cross_entropy",
    "cross_entropy_and_d_cross_entropy",
    "cross_entropy_n_counted",
    "d_add_layer_norm",
    "d_embedding",
    "d_layer_norm",
    "d_qkv_and_bias",
    "d_token_embedding_weight",
    "embedding_add_and_layer_norm",
    "fill_padding",
    "gelu",
    "gelu_and_d_gelu_column_sum",
    "pad_head",
]
