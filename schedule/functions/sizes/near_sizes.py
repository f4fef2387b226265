"""Which sizes tell a number: those of the tensors that stand in the same step, not whatever is as large by chance.

Of two modules nearly any number is a few times something. So a launch is told by the shapes of what it is given, a
view by the shape of what it sees, and new memory by the shapes of what stands beside it in a call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from longhand.lower.ir import Buffer, Size
from longhand.schedule.layers.outside import references
from longhand.schedule.names.dimensions.compound_names import parts_of
from longhand.schedule.plan import Extern, Launch, PlanStep


def tensors_beside(steps: Iterable[PlanStep]) -> dict[str, tuple[str, ...]]:
    """By tensor: all that stand in calls with it."""
    beside: dict[str, dict[str, None]] = {}
    for step in steps:
        names = list(references(step)) if isinstance(step, Launch | Extern) else []
        for name in names:
            beside.setdefault(name, {}).update(dict.fromkeys(names))
    return {name: tuple(others) for name, others in beside.items()}


def symbols_of(
    names: Iterable[str],
    buffers: Mapping[str, Buffer],
    words_of: Callable[[str, int], Sequence[str | None]],
) -> frozenset[str]:
    """The words for sizes of some tensors: symbols, and what dimensions are called that are the same everywhere.

    Args:
        names: The tensors.
        buffers: Those with symbols in their shapes.
        words_of: Words for the dimensions of a buffer.
    """
    words: set[str] = set()
    for name in names:
        if (buffer := buffers.get(name)) is not None:
            words |= {str(symbol) for size in buffer.shape for symbol in _symbols(size)}
            own = (word for word in words_of(name, len(buffer.shape)) if word is not None)
            words |= {part for word in own for part in (word, *parts_of(word))}
    return frozenset(words)


def stride_of(steps: Sequence[int], each: Sequence[Buffer], symbolic: Buffer | None) -> Size | None:
    """What a tensor's own distance between two positions is over the symbols; None where it has no such.

    Args:
        steps: That distance in each of the modules.
        each: The tensor in each of them.
        symbolic: It, with symbols.
    """
    for dim, stride in enumerate(symbolic.stride if symbolic is not None else ()):
        if [buffer.stride[dim] for buffer in each] == [*steps]:
            return stride
    return None


def span_of(steps: Sequence[int], sizes: Sequence[Sequence[Size]]) -> tuple[int, ...] | None:
    """The neighbouring axes of a launch that span a distance in all modules; None where there are none.

    Args:
        steps: The distance in each of the modules.
        sizes: Of the axes of the launch, in each of them.
    """
    if not all(type(size) is int for of in (steps, *sizes) for size in of):
        return None
    for first, last in itertools.combinations(range(1, len(sizes[0]) + 1), 2):
        if all(math.prod(of[first:last]) == step for of, step in zip(sizes, steps, strict=True)):
            return tuple(range(first, last))
    return None


def _symbols(size: Size) -> set[object]:
    return set() if isinstance(size, int) else set(size.free_symbols)
