"""The kernels, as model.py calls them."""

from .batch_norm_add_relu import batch_norm_add_relu
from .batch_norm_relu import batch_norm_relu

__all__ = ["batch_norm_add_relu", "batch_norm_relu"]
