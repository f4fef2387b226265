"""Reductions over the rows: threads take blocks of columns, and chunks of the rows where these are split."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.columns import ColumnsPrinter
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.schedule_text import (
    ScheduleText,
    chunks_in_double,
)
from longhand.schedule.plan import KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """Loops down the columns."""
    body = ColumnsPrinter(printer).text()
    if not plan.partials:
        return ScheduleText(
            "columns.cpp.jinja", ("One thread per block of columns; it walks down the rows.",), body
        )
    remark = ("One thread per chunk of rows and block of columns.", *chunks_in_double(plan, body.partials))
    return ScheduleText("columns_split.cpp.jinja", remark, body)
