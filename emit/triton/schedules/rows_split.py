"""A chunk of a row for each program, and a function that combines the chunks."""

from __future__ import annotations

from longhand.emit.text.expression import compose
from longhand.emit.triton.chunks import (
    SPLIT,
    combine_chunks,
    lines_of,
    loop_context,
    partial_stores,
    row_walk,
    scratch_context,
    without_then,
)
from longhand.emit.triton.functions import (
    N_SPLITS,
    FunctionRole,
    FunctionText,
    KernelText,
    needed,
    paragraphs,
)
from longhand.emit.triton.loops import LoopPrinter
from longhand.emit.triton.scope import FileScope
from longhand.emit.triton.space import Side, Space
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan


def functions(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One program for each chunk of a row, then one for each row that combines the chunks."""
    rows, cols, printer = row_walk(plan, names, scope)
    (one,) = plan.passes
    before = paragraphs(printer.lines(plan.before, is_loop=False)[0])
    loop = printer.loop(without_then(one))
    base = compose("{} * {} + {}", rows.index, N_SPLITS, SPLIT) if rows.keys else SPLIT
    context = loop_context(plan, rows, cols, before, [loop])
    context["stores"] = partial_stores(names, printer, one, base, None)
    context |= scratch_context(plan, names)
    does = f"Each program walks one chunk of {'a row' if rows.keys else 'all'}, COLS columns at a time"
    sides = (rows, cols)
    partial = FunctionText(does, context, (("COLS", ""),), sides, FunctionRole.PARTIAL, "body")
    final = LoopPrinter(
        plan, names, scope, Space((rows.flat,) * bool(rows.keys), Side(rows.keys), Side()), SPLIT
    )
    combining = combine_chunks(plan, names, final, one, base, compose("{} < {}", SPLIT, N_SPLITS))
    context = {**loop_context(plan, rows, cols, [], []), **combining}
    context["splits"] = needed(rows.split_lines, lines_of(combining["paragraphs"]))
    does = "Each program combines the chunks of one row" if rows.keys else "Combines the chunks"
    constants = (("SPLITS", "n_splits, rounded up to a power of two"),)
    combine = FunctionText(does, context, constants, sides, FunctionRole.COMBINE, "combine")
    return KernelText((partial, combine), tuple(sorted(printer.constants | final.constants)))
