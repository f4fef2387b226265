"""What a unit that runs in a module's place relies on besides the call's arguments, and whether it still holds.

A unit is bound to the memory of the module's parameters and buffers, and was written for its layers, their modes and
their plain attributes. People replace weights, move modules, swap a layer or set a number after compiling; each call
looks, at well under a microsecond a module. Not looked at: what a module keeps in lists or objects of its own, and
globals.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_PLAIN = (bool, int, float, str, type(None), torch.dtype)


class Standing(enum.Enum):
    """What became of a module since it was looked at."""

    SAME = "same"
    MOVED = "moved"  # other memory for the same layers: bind again
    CHANGED = "changed"  # another computation: what was written for it is wrong


@dataclasses.dataclass(frozen=True)
class ModuleState:
    """A module as it was.

    Attributes:
        weights: (the dict that holds it, its name, the tensor, its address, dtype, shape).
        layers: (the dict that holds it, its name, the module).
        plain: (a module's attributes, a name, the value), modes included.
    """

    weights: tuple[tuple[dict[str, Any], str, torch.Tensor, int, torch.dtype, torch.Size], ...]
    layers: tuple[tuple[dict[str, Any], str, nn.Module | None], ...]
    plain: tuple[tuple[dict[str, Any], str, object], ...]

    @staticmethod
    def of(original: Callable[..., Any]) -> ModuleState:
        """The state of a module; of a function there is none."""
        weights, layers, plain = [], [], []
        for module in original.modules() if isinstance(original, nn.Module) else ():
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if tensor is not None:
                        weights.append((held, name, tensor, tensor.data_ptr(), tensor.dtype, tensor.shape))
            layers += [(module._modules, name, child) for name, child in module._modules.items()]
            attributes = vars(module)
            plain += [
                (attributes, name, value) for name, value in attributes.items() if type(value) in _PLAIN
            ]
        return ModuleState(tuple(weights), tuple(layers), tuple(plain))

    def standing(self) -> Standing:
        """Whether all that is still so."""
        for held, name, layer in self.layers:
            if held.get(name) is not layer:
                return Standing.CHANGED
        for attributes, name, value in self.plain:
            if (now := attributes.get(name)) is not value and (type(now) is not type(value) or now != value):
                return Standing.CHANGED
        is_moved = False
        for held, name, tensor, address, dtype, shape in self.weights:
            now = held.get(name)
            if now is tensor and tensor.data_ptr() == address and tensor.dtype == dtype:
                continue
            if now is None or now.dtype != dtype or now.shape != shape or now.device != tensor.device:
                return Standing.CHANGED
            is_moved = True
        return Standing.MOVED if is_moved else Standing.SAME
