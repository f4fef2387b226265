"""The state of the generator that a unit's random calls draw from: of the GPU where its tensors are there."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch


@functools.cache
def n_state_bytes() -> int:
    """Of the CPU's generator."""
    return torch.get_rng_state().numel()


def random_state(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """What draws where the tensors are, bytes."""
    device = next((tensor.device for tensor in tensors if tensor.is_cuda), None)
    return torch.get_rng_state() if device is None else torch.cuda.get_rng_state(device)


def set_random_state(tensors: Sequence[torch.Tensor], state: torch.Tensor) -> None:
    """Lets what draws where the tensors are go on from a state."""
    device = next((tensor.device for tensor in tensors if tensor.is_cuda), None)
    torch.set_rng_state(state) if device is None else torch.cuda.set_rng_state(state, device)
