"""A square tile for each program."""

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
    """One program for each square tile of the last row axis and the col axis."""
    rows = side_names(plan, plan.rows[-1:], names, scope, "row", "n_rows", is_divided=True)
    cols = side_names(plan, plan.cols, names, scope, "col", "n_cols", is_divided=True)
    batch = side_names(plan, plan.rows[:-1], names, scope, "batch", "n_batch")
    flats = tuple(side.flat for side in (batch, rows, cols) if side.keys)
    space = Space(flats, Side(rows.keys, "TILE", "in_rows"), Side(cols.keys, "TILE", "in_cols"))
    body = block_body(plan, names, scope, space, range(len(plan.body)))
    context = paragraph_context(plan, rows, cols, body, batch)
    does = "Each program fills one TILE x TILE tile"
    return one_function(does, context, (("TILE", ""),), (batch, rows, cols))
