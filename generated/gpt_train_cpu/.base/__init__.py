"""examples.gpt_train.LanguageModel as kernels; see README.md."""

from .model import LanguageModel

__all__ = ["LanguageModel"]
