"""A block of columns for each program, which walks down the rows or a chunk of them."""

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
    """One program for a block of columns, ROWS rows at a time; or for a chunk of the rows, combined afterwards."""
    rows = side_names(plan, plan.rows, names, scope, "row", "n_rows", is_divided=True)
    cols = side_names(plan, plan.cols[-1:], names, scope, "col", "n_cols", is_divided=bool(plan.cols[:-1]))
    batch = side_names(plan, plan.cols[:-1], names, scope, "batch", "n_batch")
    flats = tuple(side.flat for side in (rows, batch, cols) if side.keys)
    space = Space(
        flats, Side(rows.keys, "ROWS", "in_rows"), Side(cols.keys, "COLS", "in_cols"), width="[ROWS, COLS]"
    )
    printer = LoopPrinter(plan, names, scope, space, rows.index, leaves_partials=bool(plan.partials))
    before = paragraphs(printer.lines(plan.before, is_loop=False)[0])
    passes = [without_then(one) for one in plan.passes] if plan.partials else list(plan.passes)
    loops = [printer.loop(one) for one in passes]
    context = loop_context(plan, rows, cols, before, loops, batch)
    context["cuts_rows"] = any(tunable.by_height and tunable.by_size for tunable in plan.tunables)
    constants = (("ROWS", ""), ("COLS", ""))
    sides = (rows, batch, cols)
    does = "Each program walks down COLS columns, ROWS rows at a time"
    if not plan.partials:
        function = FunctionText(does, context, constants, sides)
        return KernelText((function,), tuple(sorted(printer.constants)))
    (one,) = plan.passes
    here = compose("{} * {} + {}", batch.index, cols.size, cols.index) if batch.keys else cols.index
    # 64 bits go from one product to the next, but into no parentheses.
    product = "{} * {}" if plan.widths.split else "({} * {})"
    n_all = compose(product, batch.size, cols.size) if batch.keys else cols.size
    base = compose("{} * {} + {}", SPLIT, n_all, here)
    context["stores"] = partial_stores(names, printer, one, base, word("in_cols"))
    context |= scratch_context(plan, names)
    partial = FunctionText(
        "Each program walks COLS columns down one chunk of the rows, ROWS at a time",
        context,
        constants,
        sides,
        FunctionRole.PARTIAL,
    )
    combine, final = combine_rows(plan, names, scope, one, base, (rows, cols, batch), sides)
    return KernelText((partial, combine), tuple(sorted(printer.constants | final.constants)))
