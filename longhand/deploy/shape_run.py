"""A unit's code on tensors without memory: what a call returns, in type, size and strides, while no kernel runs.

A unit's model.py is PyTorch calls around kernels that fill tensors which were made before. So its own code tells what
its results are: it is imported once more, with kernels that do nothing and a runtime that asks for no addresses.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn


def import_for_shapes(package: str, folder: Path, runtime: ModuleType, name: str) -> Any:
    """The class or function that a unit exports, computing shapes alone.

    Args:
        package: The name that the loaded unit has.
        folder: Where its files are.
        runtime: Its runtime.py, as it was loaded.
        name: What it exports.
    """
    shapes = f"{package}_shapes"
    if shapes not in sys.modules:
        parent = ModuleType(shapes)
        parent.__spec__ = ModuleSpec(shapes, None, is_package=True)
        parent.__package__ = shapes
        kernels, calm = _Kernels(f"{shapes}.kernels"), _Runtime(f"{shapes}.runtime", runtime)
        sys.modules.update({shapes: parent, kernels.__name__: kernels, calm.__name__: calm})
        vars(parent).update(kernels=kernels, runtime=calm)
    sys.modules[shapes].__path__ = [str(folder)]
    importlib.invalidate_caches()  # a folder that was listed just before the unit was written
    return getattr(importlib.import_module(f"{shapes}.model"), name)


class _Kernels(ModuleType):
    """Kernels that do nothing: each fills tensors that it is given."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


class _Runtime(ModuleType):
    """A unit's runtime, but for what looks at memory."""

    def __init__(self, name: str, loaded: ModuleType) -> None:
        super().__init__(name)
        self.__dict__["loaded"] = loaded
        for look in ("check_weights", "check_apart", "check_lists_apart", "check_tensors"):
            self.__dict__[look] = lambda *_, **__: None
        self.__dict__.update(check_tensor=self._check_tensor, empty=_empty)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["loaded"], name)

    def _check_tensor(self, name: str, tensor: Any, *, dtype: Any, shape: Any, **_: Any) -> None:
        if tensor.dtype != dtype:
            raise TypeError(f"{name}: expected {dtype}, got {tensor.dtype}")
        if not self.__dict__["loaded"]._fits(tensor.shape, shape):
            raise ValueError(f"{name}: expected shape {tuple(shape)}, got {tuple(tensor.shape)}")


def _empty(shape: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype)


def put(module: nn.Module, tensors: Sequence[torch.Tensor]) -> None:
    """Makes a module hold these tensors, in the order of `held`."""
    for (owner, name, _), tensor in zip(_places(module), tensors, strict=True):
        owner[name] = tensor


def held(module: nn.Module) -> list[torch.Tensor]:
    """A module's parameters, then its buffers, what is tied as often as it has a name."""
    return [tensor for _, _, tensor in _places(module)]


def n_parameters(unit: Any) -> int:
    """How many of what a module holds are parameters, which come first; none of a function."""
    parts = unit.modules() if isinstance(unit, nn.Module) else ()
    return sum(tensor is not None for part in parts for tensor in part._parameters.values())


def _places(module: nn.Module) -> list[tuple[Any, str, torch.Tensor]]:
    parts = list(module.modules())
    holders = [part._parameters for part in parts] + [part._buffers for part in parts]
    return [(one, name, tensor) for one in holders for name, tensor in one.items() if tensor is not None]


def on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    """A module without memory, to be given tensors by `put`."""
    with torch.device("meta"):
        return make()
