"""Rows and cols: which axes programs divide among themselves, and along which one they work through their lanes.

The axis along which most bytes are contiguous makes the lanes. If it is reduced, or nothing is, it is a col and
programs divide the rest (a row reduction, an elementwise kernel); if others are reduced, it is a col too, and the
reduced axes are the rows that a program walks (a column reduction).
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping, Sequence

from longhand.errors import ScheduleError
from longhand.lower.ir import MOST_PLACES, Axis, Buffer, Load, Nest, Reduce, Store, Value, arguments, domains
from longhand.lower.rules.adding import adding_problem
from longhand.schedule.fusion.column_reductions import find_column_reductions, without_column_reductions
from longhand.schedule.kernels.axis_collapsing import (
    POSITIONAL,
    coefficient,
    collapse_axes,
    reduced_axes,
    without_dead_values,
)
from longhand.schedule.range_analysis import simplify_predicates
from longhand.schedule.sizes import Hints, guess

# Below this many elements along either side a square tile has no more coalesced accesses than a plain block.
SMALLEST_TILE_SIDE = 16
# Of so few rows, one above the other, a program adds up whole columns: a tile of rows would be empty for the most part.
_FEW_ROWS = 8
# So few elements fill no lanes: an axis of more is walked innermost then, from so many on.
_FEW_COLS = 2
_SIMD_COLS = 8
# What is read and written at once, in bytes; elements that the lanes of a warp take together, eight each.
_SECTOR = 32
_NEIGHBOURS = 256
# Accesses along the row axis are worth tiles if they are at least this share of all bytes.
TRANSPOSED_SHARE = 0.1


class Family(enum.Enum):
    """What a space looks like, before sizes and the device decide on a schedule."""

    ELEMENTWISE = "elementwise"
    TRANSPOSED = "transposed"
    ROWS = "rows"
    COLUMNS = "columns"
    WINDOWS = "windows"
    FEW_ROWS = "few_rows"


@dataclasses.dataclass(frozen=True)
class NestSpace:
    """A nest as rows x cols.

    Attributes:
        family: What is reduced, and what is contiguous.
        rows: Outermost first.
        cols: Outermost first.
        body: The nest's body over these (merged) axes, tidied.
        column_reductions: ROWS: positions of the sums over all rows that stand beside the reductions of the cols.
    """

    family: Family
    rows: tuple[Axis, ...]
    cols: tuple[Axis, ...]
    body: tuple[Value, ...]
    column_reductions: tuple[int, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Rows, then cols."""
        return self.rows + self.cols

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The axes around the lanes, and around tiles, whose order nothing depends on."""
        match self.family:
            case Family.COLUMNS | Family.FEW_ROWS:
                return self.cols[:-1]
            case Family.TRANSPOSED:
                return self.rows[:-1]
            case Family.WINDOWS:
                return ()
        return self.rows

    @property
    def loop(self) -> tuple[Axis, ...]:
        """The side that a reduction walks: cols in ROWS, rows in COLUMNS, WINDOWS and FEW_ROWS; the cols where nothing
        is reduced."""
        return self.rows if self.family in (Family.COLUMNS, Family.WINDOWS, Family.FEW_ROWS) else self.cols


@dataclasses.dataclass(frozen=True)
class Walk:
    """How a nest is walked that another one of the same math is to share its kernel with.

    Attributes:
        n_axes: How many axes stay apart at least, though all accesses treat them as fewer.
        order: The places that the outer axes of the side with the lanes have otherwise; empty: these very ones.
    """

    n_axes: int = 1
    order: tuple[int, ...] = ()

    def ordered(self, space: NestSpace) -> NestSpace:
        """The space with its outer axes in this order."""
        outer = space.outer
        if len(outer) != len(self.order):
            return space
        ordered = tuple(outer[place] for place in self.order)
        if space.family in (Family.COLUMNS, Family.FEW_ROWS):
            return dataclasses.replace(space, cols=(*ordered, *space.cols[len(outer) :]))
        return dataclasses.replace(space, rows=(*ordered, *space.rows[len(outer) :]))


ANY_WALK = Walk()


def refusal(nest: Nest) -> str | None:
    """Why a nest is no single kernel; None if it is one. Fusion asks this before it joins two nests."""
    if (problem := adding_problem(nest)) is not None:
        return problem
    nest = without_column_reductions(nest)
    reduced = reduced_axes(nest.body)
    orders = {value.axes for value in nest.body if isinstance(value, Reduce) and value.op in POSITIONAL}
    if any(isinstance(value, Reduce) and set(value.axes) != reduced for value in nest.body):
        return "its reductions are over different axes"
    if len(orders) > 1:
        return "its argmax and argmin count positions in different orders"
    everything = frozenset(axis.name for axis in nest.axes)
    spans = domains(nest.body)
    stores = [position for position, value in enumerate(nest.body) if isinstance(value, Store)]
    if not stores:
        return "it stores nothing"
    if any(spans[position] not in (everything, everything - reduced) for position in stores):
        return "a store covers neither all elements nor one for each result of a reduction"
    return None


def find_space(
    nest: Nest,
    buffers: Mapping[str, Buffer],
    hints: Hints,
    *,
    are_products: bool = False,
    unrolls_rows: bool = False,
    walk: Walk = ANY_WALK,
) -> NestSpace:
    """The nest as rows x cols. ScheduleError if it is no single kernel (see `refusal`).

    `are_products`: it is a contraction, whose sums are over cols whatever is contiguous.
    `unrolls_rows`: what is reduced over a small window, or over a few rows, is a family of its own.
    `walk`: along which axes, where not along as few as possible.
    """
    reason = refusal(nest)
    if reason is not None:
        raise ScheduleError(f"This nest is no single kernel: {reason}.")
    nest = simplify_predicates(nest)
    nest = collapse_axes(Nest(nest.axes, without_dead_values(nest.body)), walk.n_axes)
    layout = _Layout(nest, buffers, hints)
    reduced = reduced_axes(without_column_reductions(nest).body)
    if reduced:
        space = _reduction_space(nest, layout, reduced, are_products, unrolls_rows)
        sums = find_column_reductions(nest)
        if sums and space.family is not Family.ROWS:
            raise ScheduleError("This nest has sums down columns beside reductions that are not of rows.")
        return dataclasses.replace(walk.ordered(space), column_reductions=sums)
    return walk.ordered(_elementwise_space(nest, layout))


class _Layout:
    """Bytes by the axis along which they are contiguous, and the orders that large accesses suggest."""

    def __init__(self, nest: Nest, buffers: Mapping[str, Buffer], hints: Hints) -> None:
        self.hints = hints
        self.sizes = {axis.name: guess(axis.size, hints) for axis in nest.axes}
        self.place = {axis.name: place for place, axis in enumerate(nest.axes)}
        self.itemsizes: dict[str, int] = {}
        spans = domains(nest.body)
        self.accesses: list[tuple[Load | Store, int]] = []
        for position, value in enumerate(nest.body):
            if isinstance(value, Load | Store):
                elements = 1
                for axis in spans[position]:
                    elements *= self.sizes[axis]
                self.itemsizes[value.buffer] = buffers[value.buffer].dtype.itemsize
                self.accesses.append((value, elements * self.itemsizes[value.buffer]))

    def contiguous_bytes(self, axis: str) -> int:
        """Bytes of accesses that step by one element along the axis."""
        return sum(size for access, size in self.accesses if coefficient(access.index, axis) in (1, -1))

    def most_contiguous(self, axes: Iterable[str]) -> str | None:
        """The axis with most contiguous bytes; stores, then the inner axis decide between equals."""
        stored = {
            axis: sum(
                size
                for access, size in self.accesses
                if isinstance(access, Store) and coefficient(access.index, axis) in (1, -1)
            )
            for axis in self.place
        }
        return max(
            axes, key=lambda axis: (self.contiguous_bytes(axis), stored[axis], self.place[axis]), default=None
        )

    def outermost_first(self, axes: Iterable[str], kind: type[Load] | type[Store]) -> list[str]:
        """Axes ordered as the largest access of that kind lays them out; absent ones by the nest's order, outside."""
        candidates = [(size, access) for access, size in self.accesses if isinstance(access, kind)]
        largest = max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None

        def key(axis: str) -> tuple[int, int]:
            step = 0 if largest is None else abs(guess(coefficient(largest.index, axis), self.hints))
            return (-step if step else -(2**62), self.place[axis])

        return sorted(axes, key=key)

    def walked(self, axes: Sequence[str]) -> list[str]:
        """Axes in the order in which neighbouring positions are in the fewest sectors, of all accesses together.

        That is how the largest load lays them out, unless others, which are as large, lie otherwise: images whose
        pixels lie side by side beside such whose channels do.
        """
        first = self.outermost_first(axes, Load)
        if len(axes) == 1:
            return first
        orders = [first]
        for access, _ in self.accesses:
            steps = {axis: abs(guess(coefficient(access.index, axis), self.hints)) for axis in axes}
            if all(steps.values()):
                orders.append(sorted(axes, key=lambda axis: (-steps[axis], self.place[axis])))
        return min(orders, key=self._n_sectors)

    def _n_sectors(self, order: Sequence[str]) -> float:
        """How many sectors all accesses read and write if neighbours are next to each other in this order."""
        return sum(self._sectors_of(access, order) * size for access, size in self.accesses)

    def _sectors_of(self, access: Load | Store, order: Sequence[str]) -> float:
        """Sectors for each position, on average over the first ones."""
        itemsize = self.itemsizes[access.buffer]
        steps = [guess(coefficient(access.index, axis), self.hints) for axis in order]
        sizes = [self.sizes[axis] for axis in order]
        sectors = set()
        n_places = min(_NEIGHBOURS, math.prod(sizes))
        for place in range(n_places):
            at = 0
            for size, step in zip(reversed(sizes), reversed(steps), strict=True):
                place, along = divmod(place, size)
                at += along * step
            sectors.add(at * itemsize // _SECTOR)
        return len(sectors) / max(n_places, 1) / itemsize


def _space(family: Family, nest: Nest, rows: Iterable[str], cols: Iterable[str]) -> NestSpace:
    axes = {axis.name: axis for axis in nest.axes}
    return NestSpace(
        family, tuple(axes[name] for name in rows), tuple(axes[name] for name in cols), nest.body
    )


def _elementwise_space(nest: Nest, layout: _Layout) -> NestSpace:
    names = [axis.name for axis in nest.axes]
    col = _longer(layout.most_contiguous(names), names, layout)
    if col is None:
        return _space(Family.ELEMENTWISE, nest, (), ())
    rows = layout.outermost_first((name for name in names if name != col), Store)
    across = _tiled_row(rows, col, layout)
    if across is None:
        return _space(Family.ELEMENTWISE, nest, rows, (col,))
    batch = [name for name in rows if name != across]
    return _space(Family.TRANSPOSED, nest, (*batch, across), (col,))


def _longer(col: str | None, names: Sequence[str], layout: _Layout) -> str | None:
    """The axis to walk innermost: another than one of a few elements, a pair say, where enough lies along that."""
    if col is None or layout.sizes[col] > _FEW_COLS:
        return col
    longer = layout.most_contiguous(name for name in names if layout.sizes[name] >= _SIMD_COLS)
    is_enough = longer is not None and 2 * layout.contiguous_bytes(longer) >= layout.contiguous_bytes(col)
    return longer if is_enough else col


def _tiled_row(rows: list[str], col: str, layout: _Layout) -> str | None:
    """The row axis along which enough accesses are contiguous that also vary over the col."""
    total = sum(size for _, size in layout.accesses)
    best, best_bytes = None, 0
    for row in rows:
        across = sum(
            size
            for access, size in layout.accesses
            if coefficient(access.index, row) in (1, -1) and coefficient(access.index, col) not in (0, 1, -1)
        )
        if across > best_bytes and min(layout.sizes[row], layout.sizes[col]) >= SMALLEST_TILE_SIDE:
            best, best_bytes = row, across
    return best if best_bytes >= TRANSPOSED_SHARE * total else None


def _reduction_space(
    nest: Nest, layout: _Layout, reduced: frozenset[str], are_products: bool, unrolls_rows: bool
) -> NestSpace:
    kept = [axis.name for axis in nest.axes if axis.name not in reduced]
    order = next((v.axes for v in nest.body if isinstance(v, Reduce) and v.op in POSITIONAL), None)
    # In the order of names: a frozenset's own order differs from process to process.
    walked = list(order) if order is not None else layout.walked(sorted(reduced))
    lane_kept, lane_reduced = layout.most_contiguous(kept), layout.most_contiguous(walked)
    assert lane_reduced is not None
    is_across = lane_kept is not None and (
        layout.contiguous_bytes(lane_kept) > layout.contiguous_bytes(lane_reduced)
    )
    batch = layout.outermost_first((name for name in kept if name != lane_kept), Store)
    if unrolls_rows and lane_kept is not None and _is_window(nest, reduced):
        return _space(Family.WINDOWS, nest, walked, (*batch, lane_kept))
    if are_products or lane_kept is None or not is_across:
        return _space(Family.ROWS, nest, layout.outermost_first(kept, Store), walked)
    is_few = unrolls_rows and _has_places(nest, reduced, _FEW_ROWS)
    return _space(Family.FEW_ROWS if is_few else Family.COLUMNS, nest, walked, (*batch, lane_kept))


def _has_places(nest: Nest, reduced: frozenset[str], most: int) -> bool:
    """Whether a nest reduces over a few known places, in one loop, which stores nothing."""
    sizes = [axis.size for axis in nest.axes if axis.name in reduced]
    if any(not isinstance(size, int) for size in sizes) or math.prod(map(int, sizes)) > most:
        return False
    below: list[bool] = []  # whether a value is made of a reduction
    for value, span in zip(nest.body, domains(nest.body), strict=True):
        is_late = any(below[argument] for argument in arguments(value))
        if isinstance(value, Reduce) and (is_late or value.op in POSITIONAL):
            return False
        if isinstance(value, Store) and span & reduced:
            return False
        below.append(is_late or isinstance(value, Reduce))
    return True


def _is_window(nest: Nest, reduced: frozenset[str]) -> bool:
    """Whether a nest reduces over the few places of a window: of two axes or more, with a place outside of what is
    read, or at places that are looked up for each.
    """
    if not _has_places(nest, reduced, MOST_PLACES):
        return False
    spans = domains(nest.body)
    deciding = {
        decides
        for value in nest.body
        if isinstance(value, Load)
        for decides in (value.mask, *(position for position, _ in value.index.values))
        if decides is not None
    }
    is_apart = any(spans[decides] & reduced and spans[decides] - reduced for decides in deciding)
    return is_apart or (len(reduced) > 1 and any(_sees_windows(value, reduced) for value in nest.body))


def _sees_windows(value: Value, reduced: frozenset[str]) -> bool:
    """Whether along each reduced axis of a load another one goes from window to window: a multiple of its steps.

    Where sums run over a batch and its positions, nothing does.
    """
    if not isinstance(value, Load):
        return False
    steps = {name: step for name, step in value.index.axes if isinstance(step, int) and step}
    if not reduced <= steps.keys():
        return False
    others = [abs(step) for name, step in steps.items() if name not in reduced]
    for name in sorted(reduced, key=lambda name: -abs(int(steps[name]))):
        over = max((other for other in others if other % int(steps[name]) == 0), default=0)
        if not over:
            return False
        others.remove(over)
    return True
