"""Calls of the gallery's models and functions at two odd sizes each: no multiples of blocks, no powers of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from examples import adamw
from examples.attention import Attention
from examples.gpt import GPT
from examples.gpt_train import LanguageModel
from examples.llama_block import LlamaBlock
from examples.resnet_block import ResNetBlock

HALF = torch.bfloat16
ModelCall = Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]


def _attention(dim: int, batch: int, seq: int) -> ModelCall:
    return lambda: (Attention(dim), (0.5 * torch.randn(batch, seq, dim),))


def _gpt(n_tokens: int, dim: int, batch: int, seq: int) -> ModelCall:
    def call() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        # As in the gallery, the whole table of positions: its kernel takes no longer one.
        model = GPT(n_tokens=n_tokens, max_seq=seq, dim=dim, n_heads=2, n_layers=4)
        return model.to(HALF), (torch.randint(n_tokens, (batch, seq)),)

    return call


def _gpt_train(n_tokens: int, dim: int, batch: int, seq: int) -> ModelCall:
    def call() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        model = LanguageModel(n_tokens=n_tokens, max_seq=seq, dim=dim, n_heads=2, n_layers=3)
        tokens = torch.randint(n_tokens, (batch, seq + 1))
        return model.to(HALF), (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())

    return call


def _llama_block(dim: int, hidden: int, batch: int, seq: int) -> ModelCall:
    def call() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        model = LlamaBlock(dim=dim, n_heads=6, n_kv_heads=2, hidden=hidden, max_seq=seq)
        return model.to(HALF), (torch.randn(batch, seq, dim, dtype=HALF),)

    return call


def _resnet_block(channels: int, wider: int, height: int, width: int) -> ModelCall:
    def call() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        model = ResNetBlock(channels, wider, stride=2).to(HALF)
        return model, (torch.randn(2, channels, height, width, dtype=HALF),)

    return call


def _resnet_block_train(channels: int, wider: int, height: int, width: int) -> ModelCall:
    def call() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
        model, (x,) = _resnet_block(channels, wider, height, width)()
        for norm in (module for module in model.modules() if isinstance(module, nn.BatchNorm2d)):
            # Every other channel is cut off by a relu, and no value is so near 0 that rounding decides: where it does,
            # a gradient in bf16 is another one than the exact one, by luck.
            norm.bias.data.copy_(torch.where(torch.arange(wider) % 2 == 0, 8.0, -8.0))
        return model, (x.requires_grad_(),)

    return call


MODELS: dict[str, tuple[ModelCall, ModelCall]] = {
    "attention_cuda": (_attention(72, 3, 37), _attention(40, 1, 131)),
    # Large enough for the head to be widened: 512 rows, 1024 columns.
    "gpt_cuda": (_gpt(1027, 36, 4, 131), _gpt(1093, 20, 7, 75)),
    "llama_block_cuda": (_llama_block(72, 104, 2, 37), _llama_block(36, 50, 1, 101)),
    # Rows enough for column sums to be kernels of their own, and for the head's padding to be stored apart.
    "gpt_train_cuda": (_gpt_train(1027, 16, 17, 131), _gpt_train(131, 24, 3, 89)),
    # Channels enough for convolutions to run channels last, and pixels for an image's statistics to be of two pieces.
    "resnet_block_train_cuda": (_resnet_block_train(65, 67, 9, 7), _resnet_block_train(70, 66, 57, 53)),
    "resnet_block_cuda": (_resnet_block(65, 67, 9, 7), _resnet_block(70, 66, 5, 11)),
}


# (eager, calls): lists of odd sizes with an empty and a one-element tensor, and one whose sizes are multiples of 16.
UPDATES: dict[str, tuple[Callable[..., None], Callable[[], list[tuple[Any, ...]]]]] = {
    "adamw_cuda": (adamw.adamw, lambda: [adamw.state(shapes) for shapes in UPDATE_SHAPES]),
}
UPDATE_SHAPES: tuple[list[tuple[int, ...]], ...] = (
    [(7,), (33, 5), (1,), (), (1500,), (0,), (16,), (1024,)],
    [(64, 16), (16,), (2048,), (48,)],
)


def function_arguments(name: str, rows: int, cols: int) -> tuple[Any, ...]:
    """Arguments of a function of examples.fused_ops, in bfloat16."""

    def tensor(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=HALF)

    if name == "transpose_add":  # generated for square matrices
        return tensor(rows, rows), tensor(rows, rows)
    x, row = tensor(rows, cols), tensor(cols)
    return {
        "softmax": (x, row),
        "layer_norm": (x, tensor(rows, cols), row, tensor(cols)),
        "cross_entropy": (x, torch.randint(cols, (rows,))),
        "rms_norm": (x, row),
        "swiglu": (x, tensor(rows, cols)),
        "bias_gelu": (x, row),
        "column_sum": (x,),
        "gelu_residual": (x, row, tensor(rows, cols)),
    }[name]


FUNCTION_SIZES = ((37, 1100), (130, 33))
