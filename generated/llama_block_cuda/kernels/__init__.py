"""The kernels, as model.py calls them."""

from .add import add
from .add_and_rms_norm import add_and_rms_norm
from .rms_norm import rms_norm
from .rotary import rotary
from .swiglu import swiglu

__all__ = ["add", "add_and_rms_norm", "rms_norm", "rotary", "swiglu"]
