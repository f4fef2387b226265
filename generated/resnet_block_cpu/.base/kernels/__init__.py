"""The kernels, as model.py calls them."""

from .batch_norm_relu import batch_norm_relu
from .batch_norms_add_relu import batch_norms_add_relu

__all__ = ["batch_norm_relu", "batch_norms_add_relu"]
