"""A row for each program, a block of columns at a time."""

from __future__ import annotations

from longhand.emit.triton.chunks import (
    loop_context,
    row_walk,
)
from longhand.emit.triton.functions import (
    FunctionText,
    KernelText,
    paragraphs,
)
from longhand.emit.triton.scope import FileScope
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan


def functions(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One program for each row, a block of columns at a time."""
    rows, cols, printer = row_walk(plan, names, scope)
    before = paragraphs(printer.lines(plan.before, is_loop=False)[0])
    loops = [printer.loop(one) for one in plan.passes]
    does = "Each program walks one row, COLS columns at a time" if rows.keys else "Walks all, COLS at a time"
    context = loop_context(plan, rows, cols, before, loops)
    function = FunctionText(does, context, (("COLS", ""),), (rows, cols))
    return KernelText((function,), tuple(sorted(printer.constants)))
