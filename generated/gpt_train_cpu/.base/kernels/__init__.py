"""The kernels, as model.py calls them."""

from .add_layer_norm import add_layer_norm
from .add_layer_norm_d_layer_norm import add_layer_norm_d_layer_norm
from .cat_sum import cat_sum
from .cross_entropy import cross_entropy
from .cross_entropy_d_cross_entropy import cross_entropy_d_cross_entropy
from .d_cross_entropy import d_cross_entropy
from .d_layer_norm import d_layer_norm
from .d_layer_norm_columns import d_layer_norm_columns
from .embedding_add_layer_norm import embedding_add_layer_norm
from .gelu import gelu
from .gelu_d_gelu_sum import gelu_d_gelu_sum
from .layer_norm_d_layer_norm_add import layer_norm_d_layer_norm_add
from .mul_add import mul_add
from .mul_d_layer_norm import mul_d_layer_norm
from .pad import pad
from .sum_columns import sum_columns

__all__ = [
    "add_layer_norm",
    "add_layer_norm_d_layer_norm",
    "cat_sum",
    "cross_entropy",
    "cross_entropy_d_cross_entropy",
    "d_cross_entropy",
    "d_layer_norm",
    "d_layer_norm_columns",
    "embedding_add_layer_norm",
    "gelu",
    "gelu_d_gelu_sum",
    "layer_norm_d_layer_norm_add",
    "mul_add",
    "mul_d_layer_norm",
    "pad",
    "sum_columns",
]
