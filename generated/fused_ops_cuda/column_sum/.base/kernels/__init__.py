"""The kernels, as model.py calls them."""

from .scale_column_sum import scale_column_sum

__all__ = ["scale_column_sum"]
