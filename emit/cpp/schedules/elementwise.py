"""No reductions: threads take elements, or rows of them."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.rows import rows_text
from longhand.emit.cpp.schedule_text import (
    ScheduleText,
    pass_printer,
    row_loops,
    sums_in_double,
)
from longhand.emit.cpp.schedules import rows_looped
from longhand.schedule.plan import KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """One loop over everything, or loops as over reduced rows."""
    if rows:
        return rows_looped.text(plan, printer, rows, cols)
    remark = "Threads divide the elements; each works through SIMD lanes." if cols else "A single element."
    body = rows_text(pass_printer(plan, printer), has_rows=False)
    return ScheduleText("flat.cpp.jinja", (remark, *sums_in_double(plan, row_loops(body))), body)
