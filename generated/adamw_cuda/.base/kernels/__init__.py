"""The kernels, as model.py calls them."""

from .adamw import adamw
from .decay_step_size_and_root_correction import decay_step_size_and_root_correction

__all__ = ["adamw", "decay_step_size_and_root_correction"]
