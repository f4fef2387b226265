"""The kernels, as model.py calls them."""

from .column_sum import column_sum

__all__ = ["column_sum"]
