"""The kernels, as model.py calls them."""

from .add_gradients import add_gradients
from .add_relu import add_relu
from .d_relu_d_batch_norm import d_relu_d_batch_norm
from .relu import relu

__all__ = ["add_gradients", "add_relu", "d_relu_d_batch_norm", "relu"]
