"""The kernels, as model.py calls them."""

from .add_gradients import add_gradients
from .batch_norm_relu import batch_norm_relu
from .batch_statistics import batch_statistics
from .d_batch_norms import d_batch_norms
from .d_relu_d_batch_norm import d_relu_d_batch_norm
from .d_relu_d_batch_norm_weight_and_bias import d_relu_d_batch_norm_weight_and_bias
from .d_relu_d_batch_norms import d_relu_d_batch_norms
from .piece_statistics import piece_statistics
from .to_channels_last import to_channels_last
from .transpose_batch_norms_add_relu import transpose_batch_norms_add_relu

__all__ = [
    "add_gradients",
    "batch_norm_relu",
    "batch_statistics",
    "d_batch_norms",
    "d_relu_d_batch_norm",
    "d_relu_d_batch_norm_weight_and_bias",
    "d_relu_d_batch_norms",
    "piece_statistics",
    "to_channels_last",
    "transpose_batch_norms_add_relu",
]
