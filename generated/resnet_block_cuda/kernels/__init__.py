"""The kernels, as model.py calls them."""

from .batch_norm_relu import batch_norm_relu
from .batch_norms_add_relu import batch_norms_add_relu
from .to_channels_last import to_channels_last

__all__ = ["batch_norm_relu", "batch_norms_add_relu", "to_channels_last"]
