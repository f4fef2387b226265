"""A model is registered here with what makes its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Factory = Callable[[], tuple[nn.Module, tuple[Any, ...]]]
HANDWRITTEN: dict[str, Factory] = {}


def model(*make: Callable[[], Tensor]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Registers a module class, built without arguments and called with what `make` returns."""

    def register(cls: type[nn.Module]) -> type[nn.Module]:
        HANDWRITTEN[cls.__name__] = lambda: (cls(), tuple(one() for one in make))
        return cls

    return register


def normal(*shape: int) -> Callable[[], Tensor]:
    """A normal tensor."""
    return lambda: torch.randn(*shape)


def below(limit: int, *shape: int) -> Callable[[], Tensor]:
    """Whole numbers from 0 to below `limit`."""
    return lambda: torch.randint(0, limit, shape)
