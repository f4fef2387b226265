"""The caller's thread computes all elements."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.rows import rows_text
from longhand.emit.cpp.schedule_text import ScheduleText, pass_printer
from longhand.schedule.plan import KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """One loop."""
    body = rows_text(pass_printer(plan, printer), has_rows=False)
    return ScheduleText("one_program.cpp.jinja", ("One thread: there is little to do.",), body)
