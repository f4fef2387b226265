"""Traces of our own and what surrounds the call that is being compiled: its hooks, its autocast."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["isolated_saves", "own_types"]


def isolated_saves() -> contextlib.AbstractContextManager[Any]:
    """Hides what is saved inside from hooks on saved tensors: torch.utils.checkpoint counts what it is told."""
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


@contextlib.contextmanager
def own_types() -> Iterator[None]:
    """No autocast inside: a graph into which it was traced holds its casts, and gets no others."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield
