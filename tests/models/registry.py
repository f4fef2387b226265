"""Modules by name, each with what makes it and its arguments: `module` registers a class."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Factory = Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
MODULES: dict[str, Factory] = {}


def module(*shapes: tuple[int, ...]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Registers a module class, built without arguments and called with normal tensors of these shapes."""

    def register(cls: type[nn.Module]) -> type[nn.Module]:
        def factory() -> tuple[nn.Module, tuple[Tensor, ...]]:
            return cls().eval(), tuple(torch.randn(*shape) for shape in shapes)

        MODULES[cls.__name__] = factory
        return cls

    return register
