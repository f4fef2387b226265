"""Lists of tensors: threads share out chunks of all of them."""

from __future__ import annotations

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.headers import VECTOR
from longhand.emit.cpp.loops import CppLoop
from longhand.emit.cpp.rows import PassText, RowsText
from longhand.emit.cpp.schedule_text import (
    ScheduleText,
    pass_printer,
    row_loops,
    sums_in_double,
)
from longhand.emit.cpp.types import cpp_type
from longhand.schedule.plan import Access, KernelPlan


def text(
    plan: KernelPlan, printer: BodyPrinter, rows: tuple[CppLoop, ...], cols: tuple[CppLoop, ...]
) -> ScheduleText:
    """One group's tensors, what is known of them ahead of the loop over elements, and that loop."""
    remark = "Threads share out chunks of all tensors." if cols else "One thread: each tensor is one element."
    passes = pass_printer(plan, printer)
    tensors = []
    for pointer in plan.pointers:
        if pointer.many:
            const = "const " if pointer.access is Access.READ else ""
            word, words = printer.names.pointers[pointer.name], printer.names.lists[pointer.name]
            tensors.append(f"{const}{cpp_type(pointer.dtype)} *{word} = {words}[tensor];")
    one = PassText(passes.column_loops(0), passes.outer_lines(0))
    body = RowsText((), tuple(tensors), passes.outer_lines(-1), (), (one,))
    needs = frozenset({VECTOR, "std::upper_bound", "std::min"} if cols else ())
    return ScheduleText("foreach.cpp.jinja", (remark, *sums_in_double(plan, row_loops(body))), body, needs)
