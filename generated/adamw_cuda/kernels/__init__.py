"""The kernels, as model.py calls them."""

from .adamw import adamw
from .div_power_sub_sqrt import div_power_sub_sqrt

__all__ = ["adamw", "div_power_sub_sqrt"]
