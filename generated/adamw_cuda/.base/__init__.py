"""examples.adamw.adamw as kernels; see README.md."""

from .model import adamw

__all__ = ["adamw"]
