"""How often a kernel reads the elements of its tensors, as far as its plan shows it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from longhand.lower.ir import IndexExpression, Load, Pointwise, PointwiseOp, Reduce, Size, Value
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.kernels.tensor_shapes import limit_along

_LARGE_PRIME = 9973


def _loads(value: Value, buffer: str) -> bool:
    return isinstance(value, Load) and value.buffer == buffer


class KernelReads:
    """How often a kernel loads the elements of its tensors.

    Args:
        kernel: The kernel.
        sizes: Of its axes, in one launch.
        shapes: Of the tensors that this launch passes, in the order of the pointers that are no scratch.
        scalars: The numbers of this launch, as far as somebody asks for what a limit leaves out.
    """

    def __init__(
        self,
        kernel: KernelPlan,
        sizes: Sequence[Size],
        shapes: Sequence[Sequence[Size]],
        scalars: Sequence[Size | float] = (),
    ) -> None:
        self.kernel = kernel
        numbers = zip((scalar.position for scalar in kernel.scalars), scalars, strict=False)
        self.numbers = {position: number for position, number in numbers if isinstance(number, int)}
        self.sizes = {axis.name: _number(size) for axis, size in zip(kernel.axes, sizes, strict=True)}
        passed = [pointer.name for pointer in kernel.pointers if not pointer.scratch]
        self.n_elements = {
            name: math.prod(map(_number, shape)) for name, shape in zip(passed, shapes, strict=True)
        }
        self.loads: dict[str, list[int]] = {}
        for position, value in enumerate(kernel.body):
            if isinstance(value, Load):
                self.loads.setdefault(value.buffer, []).append(position)

    def stays_in_cache(self, buffer: str) -> bool:
        """Whether every row, or every element, reads the same."""
        if any(self._is_picked(position) for position in self.loads[buffer]):
            return False
        varying = {axis for position in self.loads[buffer] for axis in self._varies_over(position)}
        if self.kernel.rows:
            # Where each thread has all rows, what varies over all results is read once for each.
            axes = self.kernel.cols if self.kernel.schedule.unrolls_rows else self.kernel.rows
            return not {axis.name for axis in axes} <= varying and not self._has_rows(varying)
        reduces = any(isinstance(value, Reduce) for value in self.kernel.body)
        return bool(self.kernel.cols) and not varying and not reduces

    def read_for_each(self, buffer: str) -> tuple[str, ...]:
        """The axes of rows for each of which all rows of a tensor are read again: heads, of a table of positions."""
        places = self.loads[buffer]
        varying = {axis for position in places for axis in self._varies_over(position)}
        if any(map(self._is_picked, places)) or not self._has_rows(varying):
            return ()
        # What is read in one of two batches is not read for each of them.
        masks = (getattr(self.kernel.body[position], "mask", None) for position in places)
        below = {at for mask in masks if mask is not None for at in self._below(mask)}
        counted = [at for at in below if isinstance(self.kernel.body[at], IndexExpression)]
        varying |= {axis for at in counted for axis in self._varies_over(at)}
        return tuple(axis.name for axis in self.kernel.rows if axis.name not in varying)

    def _has_rows(self, varying: set[str]) -> bool:
        """Whether a tensor is more than a vector, or a number of each row."""
        rows, cols = ({axis.name for axis in axes} for axes in (self.kernel.rows, self.kernel.cols))
        return (
            bool(varying & rows) and bool(cols) and cols <= varying and not self.kernel.schedule.unrolls_rows
        )

    def is_picked(self, buffer: str) -> bool:
        """Whether data alone says which elements are read: some perhaps often, others never."""
        return all(map(self._is_picked, self.loads[buffer]))

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
        direct = [position for position in self.loads[buffer] if not self._is_picked(position)]
        if any(sum(position in one for one in passes) > 1 for position in direct):
            return True
        return any(
            self._n_loaded([p for p in direct if p in one]) > self.n_elements[buffer] for one in passes
        )

    def takes_part(self, buffer: str) -> bool:
        """Whether a quarter of the elements or more are left unread, whatever conditions others are read under.

        Less is the border that windows leave over: nobody would say of such an image that a part of it is read.
        """
        if any(map(self._is_picked, self.loads[buffer])):
            return False
        n_read = sum(self._n_at_most(position) for position in self.loads[buffer])
        return 4 * n_read <= 3 * self.n_elements[buffer]

    def picked_by(self, buffer: str) -> list[str]:
        """The tensors whose values say which elements are read: the labels of a loss."""
        picking = filter(self._is_picked, self.loads[buffer])
        tensors: dict[str, None] = {}
        for position in picking:
            for index, _ in self.kernel.addresses[position].values:
                tensors |= dict.fromkeys(self._loaded_below(index))
        return list(tensors)

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
        n_read = math.prod(self.sizes[axis] for axis in self._varies_over(position))
        return n_read if value.mask is None else min(n_read, self.n_elements[value.buffer])

    def _n_at_most(self, position: int) -> int:
        """How many elements a load reads at most, where a limit along an axis leaves out what lies beyond it."""
        axes = self._varies_over(position)
        n_read = math.prod(self.sizes[axis] for axis in axes)
        for condition, holds in self._conditions(getattr(self.kernel.body[position], "mask", None)):
            axis, limit = limit_along(self.kernel, condition, PointwiseOp.LT) or ("", 0)
            number = self.numbers.get(limit)
            if axis in axes and number is not None:
                within = min(number, self.sizes[axis])
                n_read = n_read // self.sizes[axis] * (within if holds else self.sizes[axis] - within)
                break  # what two limits leave in common is not asked
        return n_read

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

    def _is_picked(self, position: int) -> bool:
        """Whether a load's place is data."""
        return any(self._loaded_below(index) for index, _ in self.kernel.addresses[position].values)

    def _varies_over(self, position: int) -> set[str]:
        """The axes that the place of a load or of a position varies over."""
        address = self.kernel.addresses[position]
        varying = {axis for axis, _ in address.axes}
        return varying.union(
            *(
                self._varies_over(at)
                for index, _ in address.values
                for at in self._below(index)
                if isinstance(self.kernel.body[at], IndexExpression)
            )
        )

    def _loaded_below(self, position: int) -> list[str]:
        """The buffers that a value is computed from."""
        values = (self.kernel.body[at] for at in self._below(position))
        return [value.buffer for value in values if isinstance(value, Load)]

    def _below(self, position: int) -> Iterator[int]:
        """What a value is computed from, down to loads and positions, and itself: each once."""
        seen: set[int] = set()
        waiting = [position]
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                yield at
                waiting += reversed(getattr(self.kernel.body[at], "args", ()))


def _number(size: Size) -> int:
    """A size; a symbolic one as if each symbol were one large number."""
    return size if isinstance(size, int) else int(size.subs(dict.fromkeys(size.free_symbols, _LARGE_PRIME)))
