"""What the module of a kernel schedule gives to the frame of a C++ function, and what several of them say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import torch

from longhand.emit.cpp.body import BodyPrinter
from longhand.emit.cpp.headers import VECTOR
from longhand.emit.cpp.loops import ColumnLoop, CppLoop
from longhand.emit.cpp.rows import PassPrinter, RowsText
from longhand.emit.cpp.splits import PartialText
from longhand.lower.ir import Store
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan, Pass


@dataclasses.dataclass(frozen=True)
class ScheduleText:
    """A function's body.

    Attributes:
        template: Of templates/cpp/.
        remark: How threads divide the work, and what sums are kept in.
        body: What the template prints.
        needs: Names in the template itself that are none of the kernel's own.
    """

    template: str
    remark: tuple[str, ...]
    body: object
    needs: frozenset[str] = frozenset()


# In the templates of kernels whose chunks leave results: the vectors of these, where a chunk ends, how many there are.
OF_CHUNKS = frozenset({VECTOR, "std::min", "std::max"})
# The plan, its printer, the loops over rows and those over columns, outermost first.
SchedulePrinter = Callable[[KernelPlan, BodyPrinter, tuple[CppLoop, ...], tuple[CppLoop, ...]], ScheduleText]


def pass_printer(plan: KernelPlan, printer: BodyPrinter) -> PassPrinter:
    """Of the plan's passes; a kernel without reductions is one pass that stores."""
    if plan.passes:
        return PassPrinter(plan.passes, printer)
    stores = tuple(position for position, value in enumerate(plan.body) if isinstance(value, Store))
    return PassPrinter((Pass(tuple(range(len(plan.body))), stores=stores),), printer)


def rows_remark(plan: KernelPlan, names: KernelNames, who: str) -> str:
    """Who does what, and where values wait between the loops over a row."""
    if len(plan.passes) > 1:
        waiting: dict[str, list[str]] = {}  # by the result whose memory they are in
        for stage in (stage for one_pass in plan.passes for stage in one_pass.stages):
            store = plan.body[stage.store] if stage.store is not None else None
            if isinstance(store, Store) and store.value != stage.position and stage.position in names.values:
                waiting.setdefault(names.pointers[store.buffer], []).append(names.values[stage.position])
        kept = [f"{', then '.join(values)} in {word}" for word, values in waiting.items()]
        where = f" ({'; '.join(kept)})" if kept else ""
        return f"{who}; a row stays in cache between the loops{where}."
    return f"{who}."


def row_loops(text: RowsText) -> tuple[ColumnLoop, ...]:
    """All loops over the columns of a row."""
    return tuple(loop for one in text.passes for loop in one.loops)


def in_double(plan: KernelPlan, loops: Iterable[ColumnLoop]) -> bool:
    """Whether sums of floats are kept in double there."""
    return not _is_double(plan) and any(
        accumulator.type == "double" for loop in loops for accumulator in loop.accumulators
    )


def chunks_in_double(plan: KernelPlan, partials: Iterable[PartialText]) -> tuple[str, ...]:
    """The words for sums of floats whose chunks are added up in double."""
    is_so = not _is_double(plan) and any(partial.combined_type == "double" for partial in partials)
    return ("The chunks' sums are added up in double.",) if is_so else ()


def sums_in_double(plan: KernelPlan, loops: Iterable[ColumnLoop]) -> tuple[str, ...]:
    """The words for sums of floats that loops keep in double."""
    return ("Sums in double.",) if in_double(plan, loops) else ()


def _is_double(plan: KernelPlan) -> bool:
    return any(pointer.dtype is torch.float64 for pointer in plan.pointers)
