"""Rows with reductions of their own, and sums down the columns: threads take chunks of rows."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.rows_and_columns import rows_and_columns_text
from longhand.emit.cpp.schedule_text import (
    OF_CHUNKS,
    ScheduleText,
    chunks_in_double,
    in_double,
    pass_printer,
    row_loops,
    rows_remark,
)
from longhand.schedule.plan import KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """The rows of a chunk, what they add up, and how the chunks' sums are combined."""
    remark = rows_remark(plan, printer.names, "One thread per chunk of rows")
    body = rows_and_columns_text(pass_printer(plan, printer), rows)
    sums = ("Sums of rows in double.",) if in_double(plan, row_loops(body.row)) else ()
    chunks = chunks_in_double(plan, body.partials)
    return ScheduleText("rows_and_columns.cpp.jinja", (remark, *sums, *chunks), body, OF_CHUNKS)
