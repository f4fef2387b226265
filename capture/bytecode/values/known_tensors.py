"""Tensors whose values capture knows: small ones of whole numbers that the code makes of Python's or that a module
holds as buffers, and what it makes of those. ``torch.tensor(sizes).prod().item()`` is a number then, not a break. What
was decided by a buffer's value is a guard: `values_relied_on` tells by which.

What is on a GPU is computed on the CPU. Whole numbers are the same there; floats are followed through those operations
only that IEEE 754 rounds one way.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.entry.call_effects import name_of
from longhand.capture.bytecode.values.drawn_numbers import DrawnNumbers
from longhand.capture.bytecode.values.sources import Source
from longhand.capture.tensor_leaves import tensors_in

__all__ = ["KnownTensors", "can_be_given"]

_MOST = 256  # elements
_MOST_GIVEN = 16  # of a buffer, which each call compares
_MAKERS = frozenset(["tensor", "as_tensor", "arange", "zeros", "ones", "full", "scalar_tensor", "eye"])
_ONE_ROUNDING = frozenset(
    ["add", "sub", "mul", "truediv", "div", "neg", "abs", "ceil", "floor", "trunc", "to"]
)
_SURELY_CONVERTED = 2**31  # the size of floats that every device makes the same whole number of
_PICKS = re.compile(r"sort|topk|arg|max|min|median|mode|kth|unique")  # one of equal ones, or its place
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
        self._drawn = DrawnNumbers()
        self.values_relied_on: dict[Source, torch.Tensor] = {}

    def give(self, fake: torch.Tensor, real: torch.Tensor, source: Source) -> None:
        """Notes what a buffer is, which later calls may find changed: whoever asks for it relies on it."""
        value = real.detach().to("cpu", copy=True)
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
        made = tensors_in(fake)
        self._drawn.follow(target, fake)
        if (holds := self._drawn.compared(target, args)) is not None and all(map(_is_small, made)):
            with torch_private.no_fake_mode():
                value = torch.full(fake.shape, holds, device="cpu")
            self._known[id(fake)] = _KnownTensor(fake, value, torch_private.version(fake))
            return
        if not self._can_follow(target, args, kwargs) or not all(map(_is_small, made)):
            return
        if any(one.device.type != "cpu" for one in made) and not self._is_alike_on_a_gpu(
            target, args, kwargs, made
        ):
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

    def _is_alike_on_a_gpu(self, target: Any, args: Any, kwargs: Any, made: list[torch.Tensor]) -> bool:
        """Whether a GPU gives the very numbers that the CPU gives: not which of equal ones comes first, say."""
        if _PICKS.search(name_of(target)):
            return False
        if any(one.dtype.is_floating_point for one in made):
            return _rounds_one_way(target, args, kwargs) and all(map(_is_whole_or_plain, made))
        given = [self._find(one) for one in tensors_in((args, kwargs))]
        floats = [one.value for one in given if one is not None and one.value.dtype.is_floating_point]
        return all(bool((one.abs() < _SURELY_CONVERTED).all()) for one in floats)

    def _real(self, leaf: Any) -> Any:
        known = self._find(leaf) if isinstance(leaf, torch.Tensor) else None
        return leaf if known is None else known.value


def _is_of_torch(target: Any) -> bool:
    """Whether a function is known to depend on nothing but what it is given: a user's operator may."""
    module = getattr(target, "__module__", None) or "torch"
    is_operator = isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    return not is_operator and module.partition(".")[0] in ("torch", "_operator", "builtins")


def _is_small(fake: torch.Tensor) -> bool:
    if fake.dtype.is_complex or fake.is_inference() or fake.requires_grad:
        return False
    return all(type(size) is int for size in fake.shape) and fake.numel() <= _MOST


def _rounds_one_way(target: Any, args: Any, kwargs: Any) -> bool:
    """Whether a GPU gives the very floats that the CPU gives: one correctly rounded operation of 32 or 64 bits.

    A GPU multiplies by a number's reciprocal to divide by it, and by ``alpha`` without rounding what it then adds;
    a division by a tensor on the GPU is one.
    """
    name = name_of(target).strip("_")
    if name not in _ONE_ROUNDING or kwargs.keys() - {"dtype", "device", "copy", "non_blocking"}:
        return False
    tensors = tensors_in((args, kwargs))
    is_division = name in ("truediv", "div")
    if is_division and not (
        len(args) > 1 and isinstance(args[1], torch.Tensor) and args[1].device.type != "cpu"
    ):
        return False
    return all(map(_is_whole_or_plain, tensors))


def _is_whole_or_plain(one: torch.Tensor) -> bool:
    return not one.dtype.is_floating_point or one.dtype in (torch.float32, torch.float64)


def can_be_given(real: torch.Tensor, *, is_guarded: bool) -> bool:
    """Whether a buffer's value is as good as a number: few whole numbers, which each call can look at.

    On a GPU it is a look that waits; only what was decided by one is looked at again, and there eager waits as well.

    Args:
        real: The buffer.
        is_guarded: Whether each call is asked if it is still that; else it must be one that no state_dict sets.
    """
    is_whole = not (real.dtype.is_floating_point or real.dtype.is_complex or real.is_inference())
    is_fixed = is_guarded or getattr(real, "persistent", True) is False
    is_there = real.device.type == "cpu" or (real.is_cuda and not torch.cuda.is_current_stream_capturing())
    return is_whole and is_fixed and is_there and 0 < real.numel() <= _MOST_GIVEN


def _on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: torch.device("cpu") if name == "device" and part is not None else part
        for name, part in kwargs.items()
    }
