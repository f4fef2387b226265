"""Lists of tensors in a docstring: all of a few by their words; of many, what they are: ``4 gradients``.

A reader finds each one's word in the signature below. What a sentence is to say is what kind of tensors they are.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from longhand.schedule.named_plan import KernelNames
from longhand.schedule.names.words import GradientWord, listed
from longhand.schedule.plan import KernelPlan, tensor_shape

_MOST_LISTED = 4  # tensors of any kind; of more, those of one kind are counted
_FEWEST_COUNTED = 3  # of one kind
_MOST_PLAIN = 6  # whose kind says nothing


class _Kind(enum.Enum):
    """What is counted. Others' words may stand beside a number of gradients: a gradient can have a word of its own."""

    GRADIENT = "{} gradients"
    VECTOR = "the {} vectors"
    OTHER = "tensors"


def told_tensors(buffers: Iterable[str], plan: KernelPlan, names: KernelNames) -> str:
    """``d_out, the 5 vectors and x``.

    Args:
        buffers: The keys of the kernel's pointers.
        plan: The kernel.
        names: Its words.
    """
    kinds = {buffer: _kind(buffer, plan, names) for buffer in dict.fromkeys(buffers)}
    if len(kinds) <= _MOST_LISTED:
        return listed(names.pointers[buffer] for buffer in kinds)
    counted = {
        kind for kind in (_Kind.GRADIENT, _Kind.VECTOR) if list(kinds.values()).count(kind) >= _FEWEST_COUNTED
    }
    left = [buffer for buffer, kind in kinds.items() if kind not in counted]
    if len(left) > _MOST_PLAIN:
        return _with_others(kinds)
    entries = [
        kind.value.format(list(kinds.values()).count(kind)) if kind in counted else names.pointers[buffer]
        for buffer, kind in kinds.items()
    ]
    return listed(dict.fromkeys(entries))


def _with_others(kinds: dict[str, _Kind]) -> str:
    """``the 7 tensors``, ``3 gradients and the 7 other tensors``."""
    numbers = {kind: list(kinds.values()).count(kind) for kind in _Kind}
    said = [kind for kind in (_Kind.GRADIENT, _Kind.VECTOR) if numbers[kind] >= _FEWEST_COUNTED]
    n_others = len(kinds) - sum(numbers[kind] for kind in said)
    others = f"the {n_others} {'other ' * bool(said)}{_Kind.OTHER.value}"
    return listed([*(kind.value.format(numbers[kind]) for kind in said), others])


def _kind(buffer: str, plan: KernelPlan, names: KernelNames) -> _Kind:
    if isinstance(names.pointers[buffer], GradientWord):
        return _Kind.GRADIENT
    ranks = {pointer.name: _rank(tensor_shape(plan, pointer)) for pointer in plan.pointers}
    return _Kind.VECTOR if ranks[buffer] == 1 < max(ranks.values()) else _Kind.OTHER


def _rank(shape: tuple[str | int, ...] | None) -> int:
    return 2 if shape is None else len(shape)
