"""What a unit that runs in a module's or function's place relies on besides the call's arguments, and whether it
still holds.

A unit is bound to the memory of the module's parameters and buffers, and was written for its layers, their modes,
their attributes and hooks, and for what their code reads of globals and closures. People replace weights, move
modules, swap a layer or an activation or set a number after compiling; each call looks, at about half a microsecond a
module. Not looked at: what is inside objects inside objects.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from longhand.capture import torch_private
from longhand.compiled.function_state import Facts, is_library

# What nn.Module keeps for itself; weights and layers among it are looked at on their own.
_OWN = frozenset(vars(nn.Module())) - {"training"}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class Standing(enum.Enum):
    """What became of a module since it was looked at."""

    SAME = "same"
    MOVED = "moved"  # other memory for the same layers: bind again
    CHANGED = "changed"  # another computation: what was written for it is wrong


@dataclasses.dataclass(frozen=True)
class ModuleState:
    """A module or function as it was.

    Attributes:
        weights: (the dict that holds it, its name, the tensor, its address, dtype, shape).
        layers: (the dict that holds it, its name, the module).
        classes: (a module, its class, the class's forward, how many attributes it has).
        facts: Attributes, modes, and what the code reads.
        can_be_bound: Whether the unit takes other weights: a module's does.
    """

    weights: tuple[tuple[dict[str, Any], str, torch.Tensor, int, torch.dtype, torch.Size], ...]
    layers: tuple[tuple[dict[str, Any], str, nn.Module | None], ...]
    classes: tuple[tuple[nn.Module, type, object, int], ...]
    facts: Facts
    can_be_bound: bool

    @staticmethod
    def of(original: Callable[..., Any]) -> ModuleState:
        """The state of a module with all that is in it, or of a function."""
        weights, layers, classes, facts = [], [], [], Facts()
        if isinstance(original, nn.Module):
            roots = [original]
        else:
            owner = getattr(original, "__self__", None)
            if isinstance(owner, nn.Module):
                facts.modules.append(owner)
            elif hasattr(owner, "__dict__"):
                for name in vars(owner):
                    facts.add(vars(owner), name)
            facts.add_function(original, type(owner).__mro__ if owner is not None else ())
            roots = facts.modules
        is_module = roots == [original]
        for module in dict.fromkeys(module for root in roots for module in root.modules()):
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if tensor is None:
                        continue
                    weights.append((held, name, tensor, tensor.data_ptr(), tensor.dtype, tensor.shape))
                    if not is_module:
                        facts.add_tensor(tensor)  # a function's unit has it among its constants
            layers += [(module._modules, name, child) for name, child in module._modules.items()]
            attributes = vars(module)
            classes.append((module, type(module), type(module).forward, len(attributes)))
            for name in attributes:
                if name not in _OWN:
                    facts.add(attributes, name)
            for name in _HOOKS:
                facts.contents.append((attributes[name], tuple(_flat(attributes[name]))))
            if not is_library(type(module).__module__):
                facts.add_function(type(module).forward, type(module).__mro__)
        for hooks in torch_private.global_module_hooks():
            facts.contents.append((hooks, tuple(_flat(hooks))))
        return ModuleState(tuple(weights), tuple(layers), tuple(classes), facts, is_module)

    def standing(self) -> Standing:
        """Whether all that is still so."""
        for held, name, layer in self.layers:
            if held.get(name) is not layer:
                return Standing.CHANGED
        for module, owner, forward, n_attributes in self.classes:
            if type(module) is not owner or owner.forward is not forward or len(vars(module)) != n_attributes:
                return Standing.CHANGED
        if not self.facts.hold():
            return Standing.CHANGED
        is_moved = False
        for held, name, tensor, address, dtype, shape in self.weights:
            now = held.get(name)
            if now is tensor and tensor.data_ptr() == address and tensor.dtype == dtype:
                continue
            if now is None or now.dtype != dtype or now.shape != shape or now.device != tensor.device:
                return Standing.CHANGED
            is_moved = True
        if is_moved:
            return Standing.MOVED if self.can_be_bound else Standing.CHANGED
        return Standing.SAME


def _flat(hooks: dict[Any, Any]) -> list[object]:
    return [value for item in hooks.items() for value in item]
