"""Tensors whose values capture knows: small ones of whole numbers that the code makes of Python's, and what it makes
of those. ``torch.tensor(sizes).prod().item()`` is a number then, not a break.
"""

from __future__ import annotations

import re
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.entry.call_effects import name_of

__all__ = ["KnownTensors"]

_MOST = 256  # elements
_MAKERS = frozenset(["tensor", "as_tensor", "arange", "zeros", "ones", "full", "scalar_tensor", "eye"])
_NOT_FOLLOWED = re.compile(
    r"\w*(empty|rand|normal|bernoulli|multinomial|dropout|uniform|random)\w*|\w+_|_*set\w*"
    r"|i(add|sub|mul|matmul|mod|or|xor|and|pow|floordiv|truediv|lshift|rshift)"
)


class KnownTensors:
    """The values of fake tensors, as long as nobody writes into them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor, int]] = {}

    def value(self, fake: Any) -> torch.Tensor | None:
        """A fake tensor's value, on the CPU; None if it is not known."""
        found = self._known.get(id(fake))
        if found is None or found[0] is not fake or torch_private.version(fake) != found[2]:
            return None
        return found[1]

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
        if not self._can_follow(target, args, kwargs) or not all(map(_is_small, _results(fake))):
            return
        given, named = pytree.tree_map(self._real, (list(args), _on_cpu(kwargs)))
        try:
            with torch_private.no_fake_mode(), torch.no_grad():
                run = getattr(given.pop(0), target) if isinstance(target, str) else target
                real = run(*given, **named)
        except Exception:  # it needs another device, say
            return
        found = _results(real)
        if [(r.shape, r.dtype) for r in found] == [(f.shape, f.dtype) for f in _results(fake)]:
            for one, value in zip(_results(fake), found, strict=True):
                self._known[id(one)] = one, value.cpu(), torch_private.version(one)

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
        return all(self.value(one) is not None for one in tensors) if tensors else name in _MAKERS

    def _real(self, leaf: Any) -> Any:
        value = self.value(leaf) if isinstance(leaf, torch.Tensor) else None
        return leaf if value is None else value


def _results(found: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]


def _is_of_torch(target: Any) -> bool:
    """Whether a function is known to depend on nothing but what it is given: a user's operator may."""
    module = getattr(target, "__module__", None) or "torch"
    is_operator = isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    return not is_operator and module.partition(".")[0] in ("torch", "_operator", "builtins")


def _is_small(fake: torch.Tensor) -> bool:
    whole = not (fake.dtype.is_floating_point or fake.dtype.is_complex or fake.is_inference())
    return whole and all(type(size) is int for size in fake.shape) and fake.numel() <= _MOST


def _on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: torch.device("cpu") if name == "device" and part is not None else part
        for name, part in kwargs.items()
    }
