"""What a kernel reads and writes, and how often: the last line of its docstring.

``Reads x and attn once, writes h once; weight and bias stay in cache.`` It follows from the loads of the kernel's body
and from the sizes of its first call: a tensor whose elements are loaded more often than it has any is read again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from longhand.emit.names.kernel_purpose import fills_padding
from longhand.emit.names.words import listed
from longhand.lower.ir import Buffer, Load, Pointwise, PointwiseOp, Reduce, Size, Store, Value
from longhand.schedule.plan import KernelPlan, Launch

_LARGE_PRIME = 9973
_MOST_WORDS = 6  # of a list; of a longer one the first are named, and how many there are besides


def traffic_line(
    kernel: KernelPlan, launch: Launch, buffers: Mapping[str, Buffer], pointers: Mapping[str, str]
) -> str:
    """The line, without its full stop.

    Args:
        kernel: The kernel.
        launch: Its first call.
        buffers: The unit's buffers.
        pointers: The kernel's words for its pointers.
    """
    written = listed(dict.fromkeys(pointers[v.buffer] for v in kernel.body if isinstance(v, Store)))
    if fills_padding(kernel):
        return f"Writes the padding of {written} once, and nothing else"
    reads = _Reads(kernel, launch, buffers)
    loaded = dict.fromkeys(value.buffer for value in kernel.body if isinstance(value, Load))
    kept = [buffer for buffer in loaded if reads.stays_in_cache(buffer)]
    again = [buffer for buffer in loaded if buffer not in kept and reads.is_repeated(buffer)]
    once = [buffer for buffer in loaded if buffer not in (*kept, *again)]
    parts = (
        [f"{_some([pointers[buffer] for buffer in once])} once{_picked(once, reads, pointers)}"]
        if once
        else []
    )
    if again:
        parts.append(
            f"{_some([pointers[buffer] for buffer in again])} once from memory and again from the cache"
        )
    line = f"Reads {listed(parts)}, writes {written} once" if parts else f"Writes {written} once"
    if kept:
        words = [pointers[buffer] for buffer in kept]
        what = listed(words) if len(words) <= _MOST_WORDS else f"the {len(words)} vectors"
        line += f"; {what} stay{'s' * (len(words) == 1)} in cache"
    return f"One launch over lists of tensors of any sizes. {line}" if kernel.schedule.is_over_lists else line


def _picked(once: list[str], reads: _Reads, pointers: Mapping[str, str]) -> str:
    """`` (logits at labels twice)``: elements that are read again because a tensor of positions says so."""
    found = [
        (pointers[buffer], listed(map(pointers.__getitem__, reads.picked_by(buffer)))) for buffer in once
    ]
    texts = [f"{word} at {positions} twice" for word, positions in found if positions]
    return f" ({listed(texts)})" if texts else ""


def _some(words: list[str]) -> str:
    """All of a few; of many the first ones, and how many there are besides."""
    few = (
        words
        if len(words) <= _MOST_WORDS
        else [*words[: _MOST_WORDS - 1], f"{len(words) - _MOST_WORDS + 1} more"]
    )
    return listed(few)


def _loads(value: Value, buffer: str) -> bool:
    return isinstance(value, Load) and value.buffer == buffer


class _Reads:
    """How often a kernel loads the elements of its tensors."""

    def __init__(self, kernel: KernelPlan, launch: Launch, buffers: Mapping[str, Buffer]) -> None:
        self.kernel = kernel
        self.sizes = {axis.name: _number(size) for axis, size in zip(kernel.axes, launch.sizes, strict=True)}
        passed = [pointer.name for pointer in kernel.pointers if not pointer.scratch]
        self.n_elements = {
            name: math.prod(map(_number, buffers[buffer].shape))
            for name, buffer in zip(passed, launch.buffers, strict=True)
        }
        self.loads: dict[str, list[int]] = {}
        for position, value in enumerate(kernel.body):
            if isinstance(value, Load):
                self.loads.setdefault(value.buffer, []).append(position)

    def stays_in_cache(self, buffer: str) -> bool:
        """Whether every row, or every element, reads the same."""
        if any(self.kernel.addresses[position].values for position in self.loads[buffer]):
            return False
        varying = {
            axis for position in self.loads[buffer] for axis, _ in self.kernel.addresses[position].axes
        }
        if self.kernel.rows:
            return not {axis.name for axis in self.kernel.rows} <= varying
        reduces = any(isinstance(value, Reduce) for value in self.kernel.body)
        return bool(self.kernel.cols) and not varying and not reduces

    def is_repeated(self, buffer: str) -> bool:
        """Whether a pass loads more elements than there are, or several passes load them."""
        halves = self.kernel.halves
        if halves is not None:
            sides = [
                side for value, side in zip(halves.body, halves.sides, strict=True) if _loads(value, buffer)
            ]
            return len(sides) > len(set(sides))
        passes = [frozenset(one.compute) for one in self.kernel.passes]
        passes = passes or [frozenset(range(len(self.kernel.body)))]
        direct = [position for position in self.loads[buffer] if not self.kernel.addresses[position].values]
        if any(sum(position in one for one in passes) > 1 for position in direct):
            return True
        return any(
            self._n_loaded([p for p in direct if p in one]) > self.n_elements[buffer] for one in passes
        )

    def picked_by(self, buffer: str) -> list[str]:
        """The tensors whose values say which elements are read besides all of them: the labels of a loss."""
        picking = [position for position in self.loads[buffer] if self.kernel.addresses[position].values]
        if len(picking) == len(self.loads[buffer]):
            return []
        found: dict[str, None] = {}
        for position in picking:
            for index, _ in self.kernel.addresses[position].values:
                found |= dict.fromkeys(self._loaded_below(index))
        return list(found)

    def _n_loaded(self, positions: list[int]) -> int:
        """How many elements the loads of a buffer read in a pass; those whose masks exclude each other read in turn."""
        turns: list[list[int]] = []
        for position in positions:
            free = (turn for turn in turns if all(self._are_exclusive(position, other) for other in turn))
            turn = next(free, None)
            if turn is None:
                turns.append([position])
            else:
                turn.append(position)
        return sum(min(self._n_read(p) for p in turn) for turn in turns)

    def _n_read(self, position: int) -> int:
        """How many elements a load reads: one for each place of the axes that its address varies over."""
        value = self.kernel.body[position]
        assert isinstance(value, Load)
        n_read = math.prod(self.sizes[axis] for axis, _ in self.kernel.addresses[position].axes)
        return n_read if value.mask is None else min(n_read, self.n_elements[value.buffer])

    def _are_exclusive(self, one: int, other: int) -> bool:
        first, second = (self._conditions(getattr(self.kernel.body[at], "mask", None)) for at in (one, other))
        return any((condition, not holds) in second for condition, holds in first)

    def _conditions(self, mask: int | None) -> set[tuple[int, bool]]:
        """The conditions that all hold where a mask does: (position, whether it is true)."""
        if mask is None:
            return set()
        value: Value = self.kernel.body[mask]
        if isinstance(value, Pointwise) and value.op is PointwiseOp.LOGICAL_AND:
            return set().union(*(self._conditions(argument) for argument in value.args))
        if isinstance(value, Pointwise) and value.op is PointwiseOp.LOGICAL_NOT:
            return {(value.args[0], False)}
        return {(mask, True)}

    def _loaded_below(self, position: int) -> list[str]:
        """The buffers that a value is computed from."""
        value = self.kernel.body[position]
        if isinstance(value, Load):
            return [value.buffer]
        return [buffer for at in getattr(value, "args", ()) for buffer in self._loaded_below(at)]


def _number(size: Size) -> int:
    """A size; a symbolic one as if each symbol were one large number."""
    return size if isinstance(size, int) else int(size.subs(dict.fromkeys(size.free_symbols, _LARGE_PRIME)))
