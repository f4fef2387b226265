"""The only program computes all elements."""

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
from longhand.schedule.names.unit_names import KernelNames
from longhand.schedule.plan import KernelPlan


def functions(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One function, launched once."""
    rows = side_names(plan, (), names, scope, "row", "n_rows")
    cols = side_names(plan, plan.cols, names, scope, "col", "n_cols")
    space = Space((cols.flat,), Side(), Side(cols.keys, "COLS", "in_range"))
    body = block_body(plan, names, scope, space, range(len(plan.body)))
    constants = (("COLS", f"{cols.size.text}, rounded up to a power of two"),)
    context = paragraph_context(plan, rows, cols, body)
    return one_function("The only program computes everything", context, constants, (rows, cols))
