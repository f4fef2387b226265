"""Which index variables of a CUDA kernel need 64 bits: decided from sizes, before anything is multiplied.

Triton counts programs and lanes in 32 bits, and takes a whole number that fits for a 32-bit one. A sum is right in 32
bits if its summands' magnitudes add up to less than `MOST`: then so is each part of it, in whatever order it is
written. Where they do not, the sides of the address that reach farthest (rows, cols, the batch around a tile) become
64-bit ones until what is left fits; a product or sum with one 64-bit operand is a 64-bit one.

A range that has no upper end can be anything: the side that it counts is wide.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

import sympy

from longhand.lower.ir import Buffer, Size
from longhand.schedule.kernels.address_terms import Address, Factor, ParameterRef, Product, ScalarRef, SizeOf
from longhand.schedule.kernels.kernel_plan import IndexWidths, KernelPlan
from longhand.schedule.kernels.kernel_schedule import AxisRole
from longhand.schedule.sizes import Limits

# Positions in 32 bits stay below this. The rest, 2**27, is one grid of margin: what the padded lanes of a last block,
# and the end of a last chunk, lie past the end.
MOST = 2**31 - 2**27
# Programs along the second and third side of a CUDA grid.
MOST_ACROSS = 65535
# The narrowest block of cols that somebody may tune a kernel to.
NARROWEST_BLOCK = 64

Bound = int | float  # a size's upper end; math.inf where it has none


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Upper ends of what a kernel is called with.

    Attributes:
        sizes: Of its axes.
        ints: Of its stride and offset arguments, magnitudes.
        scalars: Of its whole-number arguments, by position, magnitudes.
        elements: Of its largest tensor.
    """

    sizes: Mapping[str, Bound]
    ints: Mapping[str, Bound]
    scalars: Mapping[int, Bound]
    elements: Bound = 0

    def product(self, product: Product) -> Bound:
        """The magnitude of a product."""
        return _times(self._factor(factor) for factor in product)

    def count(self, axes: Iterable[str]) -> Bound:
        """How many elements these axes span."""
        return _times(self.sizes[axis] for axis in axes)

    def _factor(self, factor: Factor) -> Bound:
        match factor:
            case SizeOf(axis):
                return self.sizes[axis]
            case ParameterRef(name):
                return self.ints[name]
            case ScalarRef(position):
                return self.scalars.get(position, math.inf)
        return abs(factor)


def largest(size: Size, limits: Limits) -> Bound:
    """The largest magnitude of a size."""
    if isinstance(size, int):
        return abs(size)
    total: Bound = 0
    for term in sympy.Add.make_args(sympy.expand(size)):
        number, rest = term.as_coeff_Mul()
        factors = [factor.as_base_exp() for factor in sympy.Mul.make_args(rest)]
        if not number.is_Integer or not all(
            base.is_Symbol and power.is_Integer and power > 0 for base, power in factors if base != 1
        ):
            return math.inf
        bounds = [limits.get(base) for base, power in factors if base != 1 for _ in range(int(power))]
        if number > 0 or len(sympy.Add.make_args(size)) == 1:
            total += _times([abs(int(number)), *(math.inf if b is None else b for b in bounds)])
    return total


def most_elements(buffers: Iterable[Buffer], limits: Limits) -> Bound:
    """How many elements the largest of these tensors may have."""
    return max((_times(largest(size, limits) for size in buffer.shape) for buffer in buffers), default=0)


def find_index_widths(plan: KernelPlan, bounds: Bounds) -> IndexWidths:
    """The widths for one call of a kernel.

    Args:
        plan: All but its widths.
        bounds: Of the call.
    """
    sides = _sides(plan)
    counted = {axis for side in sides for axis in side if bounds.count(side) >= MOST}
    wide = set(counted)
    for address in (*plan.addresses.values(), *_scratch(plan)):
        for side in _widened(address, sides, wide, bounds):
            wide |= set(side)
    return IndexWidths(
        axes=tuple(axis.name in wide for axis in plan.axes),
        counts=tuple(axis.name in counted for axis in plan.axes),
        split=_split_is_wide(plan, counted, bounds),
        flat_grid=_has_flat_grid(plan, bounds),
        large=bool(wide) or bounds.elements >= MOST,
    )


def _sides(plan: KernelPlan) -> list[tuple[str, ...]]:
    """The axes that one index variable walks together."""
    rows, cols = [axis.name for axis in plan.rows], [axis.name for axis in plan.cols]
    if plan.schedule.is_tiled:
        groups = [rows[:-1], rows[-1:], cols]
    elif plan.schedule.unrolls_rows:
        groups = [*([row] for row in rows), cols[:-1], cols[-1:]]
    elif plan.schedule.is_down_columns:
        groups = [rows, cols[:-1], cols[-1:]]
    else:
        groups = [rows, cols]
    return [tuple(group) for group in groups if group]


def _widened(
    address: Address, sides: list[tuple[str, ...]], wide: set[str], bounds: Bounds
) -> list[tuple[str, ...]]:
    """The sides that this address needs in 64 bits besides those that are."""
    steps = dict(address.axes)
    reach = {
        side: sum(bounds.product((*steps[axis], SizeOf(axis))) for axis in side if axis in steps)
        for side in sides
        if not set(side) <= wide
    }
    # What is walked from its end is written as one: (size - 1 - axis) * product.
    ends = 0 if address.reversed else sum(bounds.product(product) for product in address.offset)
    widened_sides = []
    while reach and ends + sum(reach.values()) >= MOST:
        farthest = max(reach, key=lambda side: reach[side])
        if not reach.pop(farthest):
            break  # what is left is an argument of the call, which has the bits that it needs
        widened_sides.append(farthest)
    return widened_sides


def _scratch(plan: KernelPlan) -> list[Address]:
    """Where the chunks of a split kernel leave their results, but for the number of the chunk."""
    if not plan.partials:
        return []
    has_row_chunks = plan.schedule.chunked is AxisRole.ROW
    axes = [axis.name for axis in (plan.cols if has_row_chunks else plan.rows)]
    splits: Product = () if has_row_chunks else (_most_splits(plan),)
    steps: dict[str, Product] = {}
    for axis in reversed(axes):
        steps[axis] = splits
        splits = (SizeOf(axis), *splits)
    return [Address(tuple(steps.items()))]


def _split_is_wide(plan: KernelPlan, counted: set[str], bounds: Bounds) -> bool:
    """Whether a chunk's number needs 64 bits: times the length of a chunk, or of a row of results."""
    if not plan.partials:
        return False
    has_row_chunks = plan.schedule.chunked is AxisRole.ROW
    looped, kept = (plan.rows, plan.cols) if has_row_chunks else (plan.cols, ())
    row = bounds.count(axis.name for axis in kept)
    return any(axis.name in counted for axis in looped) or _times((_most_splits(plan), row)) >= MOST


def _most_splits(plan: KernelPlan) -> int:
    """As many chunks as there may be: a tunable says so, or how many programs share all columns."""
    return next(tunable.value for tunable in plan.tunables if tunable.name in ("SPLITS", "PROGRAMS"))


def _has_flat_grid(plan: KernelPlan, bounds: Bounds) -> bool:
    """Whether blocks of cols could be more than a grid's second side has programs."""
    rows, cols = plan.rows, plan.cols
    if plan.schedule.unrolls_rows:
        rows, cols = cols[:-1], cols[-1:]
    is_tile = plan.schedule.has_grid_of_blocks and bool(rows) and bool(cols)
    return is_tile and bounds.count(axis.name for axis in cols) > MOST_ACROSS * NARROWEST_BLOCK


def _times(bounds: Iterable[Bound]) -> Bound:
    """The product; nothing of anything is nothing."""
    factors = list(bounds)
    return 0 if 0 in factors else math.prod(factors)
