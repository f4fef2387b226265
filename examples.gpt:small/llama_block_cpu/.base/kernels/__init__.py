"""The kernels, as model.py calls them."""

from .add import add
from .add_rms_norm import add_rms_norm
from .cat_mul_add import cat_mul_add
from .rms_norm import rms_norm
from .silu_mul import silu_mul

__all__ = ["add", "add_rms_norm", "cat_mul_add", "rms_norm", "silu_mul"]
