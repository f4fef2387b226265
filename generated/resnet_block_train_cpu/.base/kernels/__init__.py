"""The kernels, as model.py calls them."""

from .add_gradients import add_gradients
from .add_relu import add_relu
from .d_batch_norm_relu import d_batch_norm_relu
from .relu import relu

__all__ = ["add_gradients", "add_relu", "d_batch_norm_relu", "relu"]
