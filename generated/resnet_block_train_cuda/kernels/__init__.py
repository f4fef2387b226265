"""The kernels, as model.py calls them."""

from .add_gradients import add_gradients
from .batch_norm_relu import batch_norm_relu
from .batch_norms_add_relu import batch_norms_add_relu
from .batch_statistics import batch_statistics
from .d_batch_norm_relu import d_batch_norm_relu
from .d_batch_norm_relu_weight import d_batch_norm_relu_weight
from .d_batch_norms import d_batch_norms
from .d_batch_norms_relu import d_batch_norms_relu
from .piece_statistics import piece_statistics
from .to_channels_last import to_channels_last

__all__ = [
    "add_gradients",
    "batch_norm_relu",
    "batch_norms_add_relu",
    "batch_statistics",
    "d_batch_norm_relu",
    "d_batch_norm_relu_weight",
    "d_batch_norms",
    "d_batch_norms_relu",
    "piece_statistics",
    "to_channels_last",
]
