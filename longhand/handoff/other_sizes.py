"""Calls of a kernel at other sizes than the model's, made from one of the model's.

A kernel takes its sizes as numbers, and what it may touch at any sizes its windows in check.py tell. Which sizes go
together nothing tells: at those that do, the kernel as longhand wrote it computes what its reference does, and so
must every other version of it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

_EACH_ALONE = 3
_TOGETHER = 4
_MOST_ELEMENTS = 2**22
_BEHIND = 1024  # elements of a guard behind what a kernel may write


@dataclasses.dataclass(frozen=True)
class Resized:
    """One call.

    Attributes:
        given: The arguments.
        ints: The sizes among them.
        guards: What no version of the kernel may write: each as a copy beside the memory itself.
    """

    given: tuple[Any, ...]
    ints: tuple[int, ...]
    guards: tuple[tuple[torch.Tensor, torch.Tensor], ...]

    def is_intact(self) -> bool:
        """Whether nothing was written where nothing may be."""
        return all(
            torch.equal(before.view(torch.uint8), now.view(torch.uint8)) for before, now in self.guards
        )


def drawn_ints(given: Sequence[Any], chance: random.Random) -> list[tuple[int, ...]]:
    """Sizes to try: each number of a call changed alone, then several at once."""
    ints = [value for value in given if _is_size(value)]
    sets: list[tuple[int, ...]] = []
    for place in range(len(ints)):
        alone = {_changed(ints[place], chance) for _ in range(2 * _EACH_ALONE)} - {ints[place]}
        for value in sorted(alone, key=lambda _: chance.random())[:_EACH_ALONE]:
            sets.append((*ints[:place], value, *ints[place + 1 :]))
    for _ in range(_TOGETHER if len(ints) > 1 else 0):
        sets.append(tuple(_changed(value, chance) for value in ints))
    return [numbers for numbers in dict.fromkeys(sets) if numbers != tuple(ints)]


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _changed(value: int, chance: random.Random) -> int:
    near = (value - 1, value + 1, value // 2 + 1, 2 * value - 1, chance.randint(1, max(2, 2 * value)), 1, 3)
    return max(1, chance.choice(near))


def resized(check: Any, name: str, given: Sequence[Any], ints: Sequence[int], seed: int) -> Resized | None:
    """A kernel's call at other sizes, with values like those of the call; None if it cannot be made.

    Args:
        check: The unit's check.py.
        name: The kernel.
        given: A call of the model's.
        ints: The sizes, in order.
        seed: Decides the values.
    """
    if any(isinstance(value, list | tuple) for value in given):
        return None  # of lists of tensors, the tensors have the sizes
    left = iter(ints)
    sized = [next(left) if _is_size(value) else value for value in given]
    extents = _extents(check, check.KERNELS[name][0], sized)
    tensors = [value for value in sized if isinstance(value, torch.Tensor)]
    if extents is None or any(id(tensor) not in extents for tensor in tensors):
        return None  # the windows do not tell how much of it a kernel needs
    if sum(extents.values()) > _MOST_ELEMENTS:
        return None
    generator = torch.Generator().manual_seed(seed)
    made: dict[int, torch.Tensor] = {}
    guards = []
    for tensor in tensors:
        key = tensor.data_ptr()  # what is one memory in the model's call is one here
        n_elements = max(extents[id(other)] for other in tensors if other.data_ptr() == key)
        if key not in made:
            whole = _like(tensor, n_elements + _BEHIND, generator)
            made[key] = whole[:n_elements]
            guards.append((whole[n_elements:].clone(), whole[n_elements:]))
    call = tuple(made[one.data_ptr()] if isinstance(one, torch.Tensor) else one for one in sized)
    return Resized(call, tuple(ints), tuple(guards))


def _extents(check: Any, windows: Callable[..., Any], sized: Sequence[Any]) -> dict[int, int] | None:
    """How many elements of each tensor a call reaches, by the tensor's id."""
    extents: dict[int, int] = {}

    def reach(
        tensor: torch.Tensor, shape: Sequence[int], stride: Sequence[int], offset: int = 0
    ) -> torch.Tensor:
        steps = zip(shape, stride, strict=True)
        last = offset + sum((size - 1) * step for size, step in steps)
        if min((*shape, 1)) < 1 or min((*stride, 0, offset)) < 0:
            raise ValueError("a kernel's window without elements, or backwards")
        extents[id(tensor)] = max(extents.get(id(tensor), 0), last + 1)
        return tensor

    original, check.window = check.window, reach
    try:
        windows(*sized)
    except Exception:  # sizes that do not go together
        return None
    finally:
        check.window = original
    return extents


def _like(tensor: torch.Tensor, n_elements: int, generator: torch.Generator) -> torch.Tensor:
    """That many of a tensor's own values, in any order: positions stay within their tables, masks stay masks."""
    flat = tensor.detach().reshape(-1)
    places = torch.randint(max(flat.numel(), 1), (n_elements,), generator=generator)
    return flat.cpu()[places].to(tensor.device) if flat.numel() else tensor.new_zeros(n_elements)


def fault_of(check: Any, name: str, kernel: Callable[..., Any], call: Resized) -> str:
    """What is wrong with a kernel in one call, in words; empty if nothing."""
    rows: list[Any] = []
    try:
        check.with_check(name, kernel, lambda *row: rows.append(row))(*call.given)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    if not call.is_intact():
        return "it writes behind the memory that it is given"
    return next(
        (f"it is wrong {mismatch}" for *_, error, allowed, mismatch in rows if not error <= allowed), ""
    )
