"""The kernels, as model.py calls them."""

from .add_gradients import add_gradients
from .batch_norm_relu import batch_norm_relu
from .batch_norms_add_relu import batch_norms_add_relu
from .batch_statistics import batch_statistics
from .d_relu_d_batch_norm import d_relu_d_batch_norm
from .increment import increment
from .piece_statistics import piece_statistics

__all__ = [
    "add_gradients",
    "batch_norm_relu",
    "batch_norms_add_relu",
    "batch_statistics",
    "d_relu_d_batch_norm",
    "increment",
    "piece_statistics",
]
