"""A unit's code on tensors without memory: what a call returns, in type, size and strides, while no kernel runs.

A unit's model.py is PyTorch calls around kernels that fill tensors which were made before. So its own code tells what
its results are: it is imported once more, with kernels that do nothing and a runtime that asks for no addresses.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.utils._pytree as pytree
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


def without_memory(tensor: torch.Tensor) -> torch.Tensor:
    """One like it, in the modes that are on."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)


def reached(
    computed: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Any],
    weights: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    flows: Sequence[bool],
) -> list[bool]:
    """To which arguments a gradient comes; to all where the unit's backward pass does not run on shapes.

    Args:
        computed: A call on shapes.
        weights: Its first arguments.
        inputs: The others.
        flows: For each of its results, whether a gradient comes back for it.
    """
    once: dict[Any, torch.Tensor] = {}  # tied weights are one
    for tensor in (*weights, *inputs):
        leaf = once.setdefault(_place(tensor), without_memory(tensor))
        leaf.requires_grad_(leaf.is_floating_point() or leaf.is_complex())
    leaves = [once[_place(tensor)] for tensor in (*weights, *inputs)]
    asked = [leaf for leaf in once.values() if leaf.requires_grad]
    try:
        result = computed(leaves[: len(weights)], leaves[len(weights) :])
        made = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        ends = [one for one, flow in zip(made, flows, strict=True) if flow and one.requires_grad]
        ones = [torch.ones_like(end) for end in ends]
        gradients = torch.autograd.grad(ends, asked, ones, allow_unused=True) if ends else [None] * len(asked)
    except Exception:  # whatever an edited unit does with addresses or values
        return [True] * len(leaves)
    there = {id(leaf) for leaf, gradient in zip(asked, gradients, strict=True) if gradient is not None}
    return [id(leaf) in there for leaf in leaves]


def _place(tensor: torch.Tensor) -> Any:
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def gradients_of_fakes(
    weights: list[torch.Tensor],
    inputs: list[torch.Tensor],
    call: str,
    state: torch.Tensor,
    d_results: list[torch.Tensor],
) -> list[torch.Tensor]:
    """What a backward operator returns, in shape: a gradient for each argument that wants one."""
    wanted = ast.literal_eval(call)[1]
    return [
        torch.empty_like(tensor, requires_grad=False)
        for tensor, is_wanted in zip([*weights, *inputs], wanted, strict=True)
        if is_wanted
    ]
