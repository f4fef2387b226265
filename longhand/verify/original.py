"""The model that a unit on disk was made from, made again: what `verify` and `bench` compare with."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.overrides import TorchFunctionMode

from longhand.emit.unit.lock_file import read_lock
from longhand.errors import NotRunHereError, UnitError
from longhand.factory import Call, resolve

SEED = 0
_SHORT = (torch.float32, torch.float16, torch.bfloat16)
_SHORT_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


def original_of(folder: Path, factory: str | None = None) -> Call:
    """The model and its example call, on the unit's device.

    Args:
        folder: The unit.
        factory: ``MODULE:FACTORY``; by default the one that the lock names.

    Raises:
        UnitError: The unit names no factory, or is for a device that this machine lacks.
        FactoryError: The factory fails.
    """
    call = call_of(folder, factory)
    device = str(read_lock(folder).get("device", "cpu"))
    if device == "cuda" and not torch.cuda.is_available():
        raise NotRunHereError(
            f"{folder} is for CUDA and this machine has no GPU that torch can use.",
            hint="Run it where there is one, or generate for the CPU.",
        )
    return moved(call, device)


def call_of(folder: Path, factory: str | None = None) -> Call:
    """The same, wherever the factory puts it.

    Raises:
        UnitError: The unit names no factory.
        FactoryError: The factory fails.
    """
    lock = read_lock(folder)
    spec = factory or lock.get("factory")
    if not spec:
        raise UnitError(
            f"{folder} was generated from a model object: nothing says how to make the original again.",
            hint="Name it: --factory MODULE:FACTORY.",
        )
    torch.manual_seed(SEED)
    return resolve(spec, () if factory else tuple(lock.get("inputs", ())))


def moved(call: Call, device: str) -> Call:
    """The call with model and tensors on a device."""
    if isinstance(call.model, nn.Module):
        call.model.to(device)
    args, kwargs = _mapped((call.args, call.kwargs), lambda tensor: _in_its_layout(tensor, device))
    return Call(call.model, args, kwargs)


def _in_its_layout(tensor: torch.Tensor, device: str | torch.device, *, again: bool = False) -> torch.Tensor:
    """The tensor on a device, with its strides: to() and clone() lose them where elements lie apart or on each other.

    Args:
        tensor: Any.
        device: Where to.
        again: Copy what is there already.
    """
    placed = tensor.to(device)
    if again and placed is tensor:
        placed = tensor.clone()
    is_plain = tensor.layout is torch.strided and not tensor.is_conj() and not tensor.is_neg()
    if placed is tensor or not is_plain or placed.stride() == tensor.stride():
        return placed
    with torch.no_grad():
        held = tensor.detach().new_empty(0).set_(tensor.untyped_storage()).to(device, copy=True)
        laid_out = held.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return laid_out.requires_grad_(tensor.requires_grad)


def told_apart(call: Call) -> Call:
    """The call with other values where a tensor is given a second time: what a unit takes for one may be two."""
    met: set[int] = set()

    def other(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in met:
            met.add(id(tensor))
            return tensor
        turned = tensor.detach().flatten().roll(1).view(tensor.shape)
        if turned.is_floating_point() and torch.equal(turned, tensor):
            turned = turned * 0.75  # all elements are one number
        if any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True)):
            return turned.requires_grad_(tensor.requires_grad)  # it lies on itself
        same_layout = _in_its_layout(tensor.detach(), tensor.device, again=True).copy_(turned)
        return same_layout.requires_grad_(tensor.requires_grad)

    args, kwargs = _mapped((call.args, call.kwargs), other)
    return Call(call.model, args, kwargs)


def copied(call: Call) -> Call:
    """The call with copies of its tensors, so that what the model writes into them stays apart."""
    args, kwargs = _mapped(
        (call.args, call.kwargs), lambda tensor: _in_its_layout(tensor, tensor.device, again=True)
    )
    return Call(copy.deepcopy(call.model), args, kwargs)


def in_float64(call: Call) -> Call:
    """The call with every floating-point tensor in float64, and every cast inside the model to float64."""

    def widened(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor.clone()

    args, kwargs = _mapped((call.args, call.kwargs), widened)
    model = copy.deepcopy(call.model)
    if isinstance(model, nn.Module):
        model = model.double()

    return Call(InFloat64(model), args, kwargs)


def in_other_bits(call: Call, draw: int = 0, *, least: float = 0.0) -> Call:
    """A copy of the call with every float among weights and arguments a last bit larger, smaller, or as it was.

    Args:
        call: Stays as it is.
        draw: Which of the many copies there are.
        least: What a bit is at least, relative to a number: products in TF32 do not see the last ones of float32.
    """
    other = copied(call)
    generator = torch.Generator().manual_seed(SEED + draw)

    def moved_a_bit(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex() and not tensor.is_conj():
            moved_a_bit(torch.view_as_real(tensor))
        elif tensor.is_floating_point():
            steps = torch.randint(-1, 2, tensor.shape, generator=generator).to(tensor.device)
            bit = max(torch.finfo(tensor.dtype).eps, least)
            tensor.copy_(tensor.double() * (1 + steps.double() * bit))
        return tensor

    with torch.no_grad():
        if isinstance(other.model, nn.Module):
            for parameter in other.model.parameters():
                moved_a_bit(parameter)
        args, kwargs = _mapped((other.args, other.kwargs), moved_a_bit)
    return Call(other.model, args, kwargs)


@dataclasses.dataclass(frozen=True)
class InFloat64:
    """A callable whose casts go to float64, as do the tensors that it makes.

    Attributes:
        original: The callable, its own weights in float64.
    """

    original: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with _Float64():
                return self.original(*args, **kwargs)
        finally:
            torch.set_default_dtype(default)


class _Float64(TorchFunctionMode):
    """Casts to a shorter floating-point type, and tensors made in one, become float64."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _SHORT_CASTS:
            return args[0].double()
        args, kwargs = pytree.tree_map(
            lambda leaf: torch.float64 if isinstance(leaf, torch.dtype) and leaf in _SHORT else leaf,
            (args, kwargs or {}),
        )
        return func(*args, **kwargs)


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return pytree.tree_map(lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)
