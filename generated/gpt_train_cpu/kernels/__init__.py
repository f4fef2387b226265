"""The kernels, as model.py calls them."""

from .add_layer_norm import add_layer_norm
from .cat_and_column_sum import cat_and_column_sum
from .column_sum import column_sum
from .cross_entropy import cross_entropy
from .cross_entropy_d_cross_entropy import cross_entropy_d_cross_entropy
from .d_cross_entropy import d_cross_entropy
from .d_layer_norm_columns import d_layer_norm_columns
from .d_layer_norm_columns_and_sum import d_layer_norm_columns_and_sum
from .embedding_add_layer_norm import embedding_add_layer_norm
from .gelu import gelu
from .gelu_d_gelu_column_sum import gelu_d_gelu_column_sum
from .layer_norm_d_layer_norm_add import layer_norm_d_layer_norm_add
from .layer_norm_d_layer_norm_and_d_layer_norm import layer_norm_d_layer_norm_and_d_layer_norm
from .mul_add import mul_add
from .mul_and_d_layer_norm_columns import mul_and_d_layer_norm_columns
from .pad import pad

__all__ = [
    "add_layer_norm",
    "cat_and_column_sum",
    "column_sum",
    "cross_entropy",
    "cross_entropy_d_cross_entropy",
    "d_cross_entropy",
    "d_layer_norm_columns",
    "d_layer_norm_columns_and_sum",
    "embedding_add_layer_norm",
    "gelu",
    "gelu_d_gelu_column_sum",
    "layer_norm_d_layer_norm_add",
    "layer_norm_d_layer_norm_and_d_layer_norm",
    "mul_add",
    "mul_and_d_layer_norm_columns",
    "pad",
]
