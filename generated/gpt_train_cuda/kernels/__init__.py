"""The kernels, as model.py calls them."""

from .add_layer_norm import add_layer_norm
from .cat import cat
from .column_sum import column_sum
from .cross_entropy import cross_entropy
from .cross_entropy_d_cross_entropy_pad import cross_entropy_d_cross_entropy_pad
from .d_cross_entropy import d_cross_entropy
from .d_layer_norm_columns import d_layer_norm_columns
from .embedding_add_layer_norm import embedding_add_layer_norm
from .gelu import gelu
from .gelu_and_d_gelu import gelu_and_d_gelu
from .layer_norm_d_layer_norm_add import layer_norm_d_layer_norm_add
from .mul_add import mul_add
from .mul_layer_norm_d_layer_norm import mul_layer_norm_d_layer_norm
from .pad import pad
from .pad_head import pad_head
from .to_bf16_column_sum import to_bf16_column_sum

__all__ = [
    "add_layer_norm",
    "cat",
    "column_sum",
    "cross_entropy",
    "cross_entropy_d_cross_entropy_pad",
    "d_cross_entropy",
    "d_layer_norm_columns",
    "embedding_add_layer_norm",
    "gelu",
    "gelu_and_d_gelu",
    "layer_norm_d_layer_norm_add",
    "mul_add",
    "mul_layer_norm_d_layer_norm",
    "pad",
    "pad_head",
    "to_bf16_column_sum",
]
