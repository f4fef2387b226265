"""examples.llama_block.LlamaBlock as kernels; see README.md."""

from .model import LlamaBlock

__all__ = ["LlamaBlock"]
