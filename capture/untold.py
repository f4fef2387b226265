"""Traces of our own are not told to the hooks around the call that is being compiled."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

__all__ = ["untold_saves"]


def untold_saves() -> contextlib.AbstractContextManager[Any]:
    """Hides what is saved inside from hooks on saved tensors: torch.utils.checkpoint counts what it is told."""
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)
