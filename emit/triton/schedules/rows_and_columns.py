"""A chunk of whole rows for each program, which adds up their columns, and a function that combines the chunks."""

from __future__ import annotations

from longhand.emit.text.expression import compose, word
from longhand.emit.triton.chunks import (
    SPLIT,
    combine_rows,
    loop_context,
    partial_stores,
    scratch_context,
    without_then,
)
from longhand.emit.triton.functions import (
    FunctionRole,
    FunctionText,
    KernelText,
    paragraphs,
    side_names,
)
from longhand.emit.triton.loops import LoopPrinter
from longhand.emit.triton.scope import FileScope
from longhand.emit.triton.space import Side, Space
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan


def functions(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One program for a chunk of the rows, kept whole, which adds up their columns; then the chunks are combined."""
    rows = side_names(plan, plan.rows, names, scope, "row", "n_rows", is_divided=True)
    cols = side_names(plan, plan.cols, names, scope, "col", "n_cols")
    space = Space(
        flats=(rows.flat, cols.flat),
        rows=Side(rows.keys, "ROWS", "in_rows"),
        cols=Side(cols.keys, "COLS", "in_cols"),
        width="[ROWS, COLS]",
    )
    printer = LoopPrinter(plan, names, scope, space, rows.index, leaves_partials=True)
    before = paragraphs(printer.lines(plan.before, is_loop=False)[0])
    (one,) = plan.passes
    context = loop_context(plan, rows, cols, before, [printer.loop(without_then(one))])
    base = compose("{} * {} + {}", SPLIT, cols.size, cols.index)
    context["stores"] = partial_stores(names, printer, one, base, word("in_cols"))
    context |= scratch_context(plan, names)
    sides = (rows, cols)
    does = "Each program walks a chunk of the rows and adds up their columns"
    constants = (("ROWS", ""), ("COLS", f"{cols.size.text}, rounded up to a power of two"))
    partial = FunctionText(does, context, constants, sides, FunctionRole.PARTIAL)
    combine, final = combine_rows(plan, names, scope, one, base, (rows, cols, None), sides)
    return KernelText((partial, combine), tuple(sorted(printer.constants | final.constants)))
