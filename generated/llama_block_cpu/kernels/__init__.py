"""The kernels, as model.py calls them."""

from .add import add
from .add_rms_norm import add_rms_norm
from .rms_norm import rms_norm
from .rotary import rotary
from .silu_mul import silu_mul

__all__ = ["add", "add_rms_norm", "rms_norm", "rotary", "silu_mul"]
