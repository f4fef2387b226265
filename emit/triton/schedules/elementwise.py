"""A block of elements for each program."""

from __future__ import annotations

from longhand.emit.triton.functions import (
    KernelText,
    block_body,
    one_function,
    paragraph_context,
    side_names,
)
from longhand.emit.triton.scope import FileScope
from longhand.emit.triton.space import Side, Space
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan


def functions(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One program for each block of elements."""
    rows = side_names(plan, plan.rows, names, scope, "row", "n_rows")
    cols = side_names(plan, plan.cols, names, scope, "col", "n_cols", is_divided=plan.widths.flat_grid)
    tile = bool(rows.keys and cols.keys)
    columns = "COLS" if tile else "BLOCK"
    space = Space(
        flats=tuple(side.flat for side in (rows, cols) if side.keys),
        rows=Side(rows.keys, "ROWS" if rows.keys else "", "in_rows" if tile else "in_range"),
        cols=Side(cols.keys, columns if cols.keys else "", "in_cols" if tile else "in_range"),
    )
    body = block_body(plan, names, scope, space, range(len(plan.body)))
    constants: tuple[tuple[str, str], ...]
    if tile:
        constants = (("ROWS", ""), ("COLS", ""))
        does = "Each program computes a block of ROWS x COLS elements"
    elif cols.keys:
        constants = (("BLOCK", ""),)
        does = "Each program computes BLOCK elements"
    elif rows.keys:
        constants = (("ROWS", ""),)
        does = "Each program computes ROWS elements"
    else:
        constants = ()
        does = "The only program computes the one element"
    if plan.cols and plan.cols[-1].end is not None:
        does += " of each half"
    context = paragraph_context(plan, rows, cols, body)
    return one_function(does, context, constants, (rows, cols))
