"""Loops over the columns of a row: threads take rows."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.rows import rows_text
from longhand.emit.cpp.schedule_text import (
    ScheduleText,
    pass_printer,
    row_loops,
    rows_remark,
    sums_in_double,
)
from longhand.schedule.names.words import plural
from longhand.schedule.plan import KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """The loops over rows, and those of one row."""
    remark = "One thread: there is a single row."
    if rows:
        word = printer.names.axes[plan.rows[0].name].index if len(plan.rows) == 1 else "row"
        remark = rows_remark(plan, printer.names, f"One thread per block of {plural(word)}")
    body = rows_text(pass_printer(plan, printer), bool(rows))
    return ScheduleText("rows.cpp.jinja", (remark, *sums_in_double(plan, row_loops(body))), body)
