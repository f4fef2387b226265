"""examples.gpt.GPT as kernels; see README.md."""

from .model import GPT

__all__ = ["GPT"]
