"""Traces of our own and what surrounds the call that is being compiled: its hooks, its autocast."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

__all__ = ["elsewhere", "isolated_saves", "own_types"]

_Result = TypeVar("_Result")


def isolated_saves() -> contextlib.AbstractContextManager[Any]:
    """Hides what is saved inside from hooks on saved tensors: torch.utils.checkpoint counts what it is told."""
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


@contextlib.contextmanager
def own_types() -> Iterator[None]:
    """No autocast inside: a graph into which it was traced holds its casts, and gets no others."""
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


def elsewhere(function: Callable[[], _Result]) -> _Result:
    """What a function gives in a thread of its own: without this one's modes, and without hooks on saved tensors.

    Where there are hooks, autograd does not look whether what it saved was written.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()
