"""What each kernel schedule adds to the name and the title of its kernels, and the words that plain loops need."""

from __future__ import annotations

import dataclasses
import itertools

from longhand.lower.ir import Load, Pointwise, PointwiseOp, Value
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.names.unit_names import KernelNames, as_printed
from longhand.schedule.names.value_rules import is_rstd
from longhand.schedule.names.words import element_names, first_free, further_names
from longhand.schedule.numerics.plain_loops import needed_lines, sum_types
from longhand.schedule.plan import KernelPlan


@dataclasses.dataclass(frozen=True)
class ScheduleNames:
    """Words for one schedule.

    Attributes:
        adjective: What sets such a kernel apart in its name; empty where its shape tells it (``flat``, ``blocks``).
        is_best: Whether of all that may tell two kernels of the same math apart that word is the best.
        walk: How it goes through its space, for the title. Empty where that is plain, or facts of the plan tell it.
    """

    adjective: str = ""
    is_best: bool = False
    walk: str = ""


_WORDS = {
    "elementwise": ScheduleNames(),
    "foreach": ScheduleNames(),
    "transposed": ScheduleNames("transposed", is_best=True),
    "columns": ScheduleNames("columns", is_best=True, walk="column by column"),
    "windows": ScheduleNames("windows", walk="window by window"),
    "rows_and_columns": ScheduleNames(walk="in one pass over the rows"),
    "rows_split": ScheduleNames("split", is_best=True),
    "rows_persistent": ScheduleNames("rows"),
    "rows_looped": ScheduleNames("rows"),
}


def words_of(plan: KernelPlan) -> ScheduleNames:
    """The words of a kernel's schedule; one that has none here is called by its own name."""
    name = plan.schedule.name
    return _WORDS.get(name) or ScheduleNames(name)


def in_plain_loops(plan: KernelPlan, names: KernelNames) -> tuple[KernelPlan, KernelNames]:
    """The kernel as plain loops (C++) are printed, complete, and the words for that."""
    plan, names = as_printed(plan, names)
    names = dataclasses.replace(names, values=_with_needed_lines(plan, names))
    sums = sum_types(plan, names.values)
    return dataclasses.replace(plan, numerics=dataclasses.replace(plan.numerics, sum_types=sums)), names


def _with_needed_lines(plan: KernelPlan, names: KernelNames) -> dict[int, str]:
    """The named values, and words for those that plain loops need a line for."""
    values = dict(names.values)
    taken = {*values.values(), *names.pointers.values(), *names.scalars.values()}
    for position in needed_lines(plan):
        if position in values:
            continue
        source = plan.body[position]
        word = "rstd" if is_rstd(source, plan.body) else _word_for(source, names)
        further = (
            element_names(word, is_only=not (source.index.axes or source.index.values))
            if isinstance(source, Load)
            else itertools.chain([word], further_names(word))
        )
        values[position] = first_free(further, taken)
        taken.add(values[position])
    return values


_OF_A_ROW = {
    PointwiseOp.DIV: "row_ratio",
    PointwiseOp.RECIPROCAL: "inverse",
    PointwiseOp.SQRT: "root",
    PointwiseOp.RSQRT: "inverse_root",
    PointwiseOp.EXP: "row_exp",
    PointwiseOp.LOG: "row_log",
}


def _word_for(value: Value, names: KernelNames) -> str:
    if isinstance(value, Load):
        return names.pointers[value.buffer]
    if value.name is not None:
        return value.name
    if isinstance(value, Pointwise) and value.op in _OF_A_ROW:
        return _OF_A_ROW[value.op]
    return "element" if not isinstance(value, Pointwise) else noun_of(value)
