"""The kernels, as model.py calls them."""

from .batch_norm_relu import batch_norm_relu
from .to_channels_last import to_channels_last
from .transpose_batch_norms_add_relu import transpose_batch_norms_add_relu

__all__ = ["batch_norm_relu", "to_channels_last", "transpose_batch_norms_add_relu"]
