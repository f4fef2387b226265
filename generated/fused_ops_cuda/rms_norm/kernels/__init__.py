"""The kernels, as model.py calls them."""

from .rms_norm import rms_norm

__all__ = ["rms_norm"]
