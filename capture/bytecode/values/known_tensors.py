"""Tensors whose values capture knows: small ones of whole numbers that the code makes of Python's or that a module
holds as buffers on the CPU, and what it makes of those. ``torch.tensor(sizes).prod().item()`` is a number then, not a
break. What was decided by a buffer's value is a guard: `values_relied_on` tells by which.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.entry.call_effects import name_of
from longhand.capture.bytecode.values.sources import Source
from longhand.capture.tensor_leaves import tensors_in

__all__ = ["KnownTensors", "can_be_given"]

_MOST = 256  # elements
_MOST_GIVEN = 16  # of a buffer, which each call compares
_MAKERS = frozenset(["tensor", "as_tensor", "arange", "zeros", "ones", "full", "scalar_tensor", "eye"])
_NOT_FOLLOWED = re.compile(
    r"\w*(empty|rand|normal|bernoulli|multinomial|dropout|uniform|random)\w*|\w+_|_*set\w*"
    r"|i(add|sub|mul|matmul|mod|or|xor|and|pow|floordiv|truediv|lshift|rshift)"
)


@dataclasses.dataclass(frozen=True)
class _KnownTensor:
    """What one fake tensor is.

    Attributes:
        fake: It; kept, so that no other gets its id.
        value: On the CPU.
        version: How often it had been written to when its value was noted.
        origins: The buffers that it is made of.
    """

    fake: torch.Tensor
    value: torch.Tensor
    version: int
    origins: frozenset[Source] = frozenset()


class KnownTensors:
    """The values of fake tensors, as long as nobody writes into them."""

    def __init__(self) -> None:
        self._known: dict[int, _KnownTensor] = {}
        self._given: dict[Source, torch.Tensor] = {}
        self.values_relied_on: dict[Source, torch.Tensor] = {}

    def give(self, fake: torch.Tensor, real: torch.Tensor, source: Source) -> None:
        """Notes what a buffer is, which later calls may find changed: whoever asks for it relies on it."""
        value = real.detach().clone()
        self._given[source] = real
        self._known[id(fake)] = _KnownTensor(fake, value, torch_private.version(fake), frozenset([source]))

    def value(self, fake: Any) -> torch.Tensor | None:
        """A fake tensor's value, on the CPU, to decide something by; None if it is not known.

        Floats are none: they are only on the way to a whole number.
        """
        known = self._find(fake)
        if known is None or known.value.dtype.is_floating_point:
            return None
        self.values_relied_on |= {source: self._given[source] for source in known.origins}
        return known.value

    def _find(self, fake: Any) -> _KnownTensor | None:
        known = self._known.get(id(fake))
        if known is None or known.fake is not fake or torch_private.version(fake) != known.version:
            return None
        return known

    def number(self, fake: Any) -> int | None:
        """The number that a tensor without dimensions is."""
        value = self.value(fake) if isinstance(fake, torch.Tensor) and not fake.dim() else None
        return None if value is None else int(value.item())

    def follow(self, target: Any, args: Any, kwargs: Any, fake: Any) -> None:
        """Notes what a call gives, if it is made of what is known.

        Args:
            target: The function, or a method's name.
            args: Fake values.
            kwargs: Fake values.
            fake: What it gave of them.
        """
        if not self._can_follow(target, args, kwargs) or not all(map(_is_small, tensors_in(fake))):
            return
        given, named = pytree.tree_map(self._real, (list(args), _on_cpu(kwargs)))
        try:
            with torch_private.no_fake_mode(), torch.no_grad():
                run = getattr(given.pop(0), target) if isinstance(target, str) else target
                real = run(*given, **named)
        except Exception:  # it needs another device, say
            return
        tensors = tensors_in(real)
        if [(r.shape, r.dtype) for r in tensors] != [(f.shape, f.dtype) for f in tensors_in(fake)]:
            return
        parts = [self._find(leaf) for leaf in pytree.tree_leaves((args, kwargs))]
        origins = frozenset(source for part in parts if part is not None for source in part.origins)
        for one, value in zip(tensors_in(fake), tensors, strict=True):
            self._known[id(one)] = _KnownTensor(one, value.cpu(), torch_private.version(one), origins)

    def _can_follow(self, target: Any, args: Any, kwargs: Any) -> bool:
        name = name_of(target)
        if _NOT_FOLLOWED.fullmatch(name) or kwargs.get("out") is not None or not _is_of_torch(target):
            return False
        leaves = pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool) for leaf in leaves):
            return False
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if torch_transforms.is_inside_transform():
            return False
        return all(self._find(one) is not None for one in tensors) if tensors else name in _MAKERS

    def _real(self, leaf: Any) -> Any:
        known = self._find(leaf) if isinstance(leaf, torch.Tensor) else None
        return leaf if known is None else known.value


def _is_of_torch(target: Any) -> bool:
    """Whether a function is known to depend on nothing but what it is given: a user's operator may."""
    module = getattr(target, "__module__", None) or "torch"
    is_operator = isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    return not is_operator and module.partition(".")[0] in ("torch", "_operator", "builtins")


def _is_small(fake: torch.Tensor) -> bool:
    """Whether it may be known. Floats are where eager computes the very same: another device may round otherwise."""
    if fake.dtype.is_complex or fake.is_inference() or fake.requires_grad:
        return False
    if fake.dtype.is_floating_point and fake.device.type != "cpu":
        return False
    return all(type(size) is int for size in fake.shape) and fake.numel() <= _MOST


def can_be_given(real: torch.Tensor, *, is_guarded: bool) -> bool:
    """Whether a buffer's value is as good as a number: few whole numbers on the CPU, which cost nothing to look at.

    Args:
        real: The buffer.
        is_guarded: Whether each call is asked if it is still that; else it must be one that no state_dict sets.
    """
    is_whole = not (real.dtype.is_floating_point or real.dtype.is_complex or real.is_inference())
    is_fixed = is_guarded or getattr(real, "persistent", True) is False
    return is_whole and is_fixed and real.device.type == "cpu" and 0 < real.numel() <= _MOST_GIVEN


def _on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: torch.device("cpu") if name == "device" and part is not None else part
        for name, part in kwargs.items()
    }
