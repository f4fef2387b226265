"""Whole rows in the registers of a program."""

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
    """One program for a few whole rows, kept in registers."""
    rows = side_names(plan, plan.rows, names, scope, "row", "n_rows")
    cols = side_names(plan, plan.cols, names, scope, "col", "n_cols")
    space = Space(
        flats=tuple(side.flat for side in (rows, cols) if side.keys),
        rows=Side(rows.keys, "ROWS" if rows.keys else "", "in_rows"),
        cols=Side(cols.keys, "COLS", "in_cols"),
    )
    body = block_body(plan, names, scope, space, range(len(plan.body)))
    context = paragraph_context(plan, rows, cols, body)
    context["has_warp_elements"] = any(tunable.name == "WARP_ELEMENTS" for tunable in plan.tunables)
    does = (
        "Each program keeps ROWS whole rows in registers"
        if rows.keys
        else "The only program keeps all in registers"
    )
    constants = [("ROWS", "")] if rows.keys else []
    constants.append(("COLS", f"{cols.size.text}, rounded up to a power of two"))
    return one_function(does, context, tuple(constants), (rows, cols))
