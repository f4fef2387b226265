"""What a graph writes into its inputs, kept for the case that CPython has to run the call again from its start.

That costs a copy of each such input in each call: it is for what is small (the running statistics of a batch norm).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from longhand.capture import torch_private

__all__ = ["can_be_kept", "keep_written", "put_back"]

_MOST_BYTES = 1 << 20
Kept = list[tuple[torch.Tensor, torch.Tensor, int | None]]


def can_be_kept(fakes: Iterable[torch.Tensor]) -> bool:
    """Whether inputs can be put back to what they were: plain, small, and without a history of gradients."""
    n_bytes = 0
    for fake in fakes:
        if any(isinstance(size, torch.SymInt) for size in fake.shape):
            return False
        has_history = fake.requires_grad and not isinstance(fake, torch.nn.Parameter)
        if has_history or fake.layout != torch.strided or not fake.is_contiguous():
            return False
        n_bytes += fake.numel() * fake.element_size()
    return n_bytes <= _MOST_BYTES


def keep_written(*tensors: torch.Tensor) -> Kept:
    """What is in the tensors now, and how often each was written to (None of an inference tensor)."""
    return [
        (tensor, tensor.detach().clone(), None if tensor.is_inference() else torch_private.version(tensor))
        for tensor in tensors
    ]


def put_back(kept: Sequence[tuple[torch.Tensor, torch.Tensor, int | None]]) -> None:
    """Makes keep_written() come true again; no graph of gradients learns of it."""
    with torch.no_grad():
        for tensor, before, version in kept:
            tensor.copy_(before)
            if version is not None:
                torch_private.set_version(tensor, version)
