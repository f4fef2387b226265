"""Tiles: the arrays into which a tile copies, transposed, what lies along its rows."""

from __future__ import annotations

import dataclasses

from longhand.emit.cpp.addresses import sum_of_terms, term
from longhand.emit.cpp.types import cpp_type
from longhand.emit.names.unit_names import KernelNames
from longhand.lower.ir import Load
from longhand.schedule.plan import KernelPlan


@dataclasses.dataclass(frozen=True)
class TurnedTile:
    """``float x_tile[TILE_ROWS][TILE_COLS];`` and the call that fills it.

    Attributes:
        name: ``x_tile``.
        type: Of its elements: as in memory.
        source: Where the tile starts: ``x + col_tile * n_rows + row_tile``.
        stride: Elements from one column of the tile to the next: ``n_rows``.
        element: ``x_tile[row - row_tile][col - col_tile]``.
    """

    name: str
    type: str
    source: str
    stride: str
    element: str


def turned_tiles(plan: KernelPlan, names: KernelNames) -> dict[int, TurnedTile]:
    """One for each of the plan's turned loads, by its position."""
    found: dict[int, TurnedTile] = {}
    if not plan.turned:
        return found
    row, col = plan.rows[-1].name, plan.cols[0].name
    row_index, col_index = names.axes[row].index, names.axes[col].index
    starts = {row: f"{row_index}_tile", col: f"{col_index}_tile"}
    types = {pointer.name: cpp_type(pointer.dtype) for pointer in plan.pointers}
    taken = {*names.values.values(), *names.pointers.values(), *names.scalars.values(), *starts.values()}
    for position in plan.turned:
        load, address = plan.body[position], plan.addresses[position]
        assert isinstance(load, Load)
        pointer = names.pointers[load.buffer]
        name = f"{pointer}_tile"
        while name in taken:
            name = f"other_{name}"
        taken.add(name)
        terms = [term(starts.get(axis, names.axes[axis].index), step, names) for axis, step in address.axes]
        # The largest steps first: they share factors with what follows.
        terms.sort(key=lambda t: -len(t.factors))
        start = (*terms, *(term(None, step, names) for step in address.offset))
        found[position] = TurnedTile(
            name,
            types[load.buffer],
            f"{pointer} + {sum_of_terms(start).text}",
            sum_of_terms((term(None, dict(address.axes)[col], names),)).text,
            f"{name}[{row_index} - {starts[row]}][{col_index} - {starts[col]}]",
        )
    return found
