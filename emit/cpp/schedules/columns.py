"""Reductions over the rows: threads take blocks of columns, and chunks of the rows where these are split."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.columns import ColumnsPrinter
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.schedule_text import (
    OF_CHUNKS,
    ScheduleText,
    chunks_in_double,
)
from longhand.schedule.names.words import listed, plural
from longhand.schedule.plan import KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """Loops down the columns."""
    body = ColumnsPrinter(printer).text()
    if not plan.partials:
        who = f"One thread per {listed([*(loop.index for loop in body.batch), 'block of columns'])}"
        return ScheduleText("columns.cpp.jinja", (f"{who}; {_walk(rows)}.",), body, frozenset({"std::min"}))
    chunks = chunks_in_double(plan, body.partials)
    remark = ("One thread per chunk of rows and block of columns.", *chunks)
    return ScheduleText("columns_split.cpp.jinja", remark, body, OF_CHUNKS)


def _walk(rows: tuple[CppLoop, ...]) -> str:
    """What a thread does in its block."""
    words = [loop.index for loop in rows]
    return f"it walks down the {plural(words[0])}" if len(words) == 1 else f"it walks along {listed(words)}"
