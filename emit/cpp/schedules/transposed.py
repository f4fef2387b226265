"""Tiles: a thread for each."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.headers import LOAD_TRANSPOSED
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.rows import rows_text
from longhand.emit.cpp.schedule_text import (
    ScheduleText,
    pass_printer,
    row_loops,
    sums_in_double,
)
from longhand.schedule.plan import KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """Tiles, and the loops inside one."""
    body = rows_text(pass_printer(plan, printer), bool(rows))
    sums = sums_in_double(plan, row_loops(body))
    needs = {"std::min"} | ({LOAD_TRANSPOSED} if body.transposed else set())
    return ScheduleText("tiles.cpp.jinja", ("One thread per tile.", *sums), body, frozenset(needs))
