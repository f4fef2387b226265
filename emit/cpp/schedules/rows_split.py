"""Few, very long rows: threads take chunks of one."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.schedule_text import (
    OF_CHUNKS,
    ScheduleText,
    chunks_in_double,
    pass_printer,
    sums_in_double,
)
from longhand.emit.cpp.splits import split_text
from longhand.schedule.plan import KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """A chunk of a row, and how chunks are combined."""
    body = split_text(pass_printer(plan, printer), rows)
    sums = sums_in_double(plan, body.loops) or chunks_in_double(plan, body.partials)
    return ScheduleText("split.cpp.jinja", ("One thread per chunk of a row.", *sums), body, OF_CHUNKS)
