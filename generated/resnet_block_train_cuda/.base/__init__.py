"""examples.resnet_block.ResNetBlock as kernels; see README.md."""

from .model import ResNetBlock

__all__ = ["ResNetBlock"]
