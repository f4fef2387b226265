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
        why: What a reader would ask about that walk of a program of the GPU; empty where it is plain. Of a walk that
            may be in chunks why it is, as the first half of a sentence.
    """

    adjective: str = ""
    is_best: bool = False
    walk: str = ""
    why: str = ""


_WORDS = {
    "elementwise": ScheduleNames(),
    "foreach": ScheduleNames(),
    "transposed": ScheduleNames(
        "transposed",
        is_best=True,
        why="Reads lie along one side of a tile, writes along the other: both take whole lines of memory.",
    ),
    "columns": ScheduleNames(
        "columns",
        is_best=True,
        walk="column by column",
        why="Blocks of columns alone are few programs, chunks of their rows are more",
    ),
    "windows": ScheduleNames("windows", walk="window by window"),
    "few_rows": ScheduleNames("few_rows", walk="column by column"),
    "rows_and_columns": ScheduleNames(walk="in one pass over the rows"),
    "rows_split": ScheduleNames(
        "split", is_best=True, why="Rows are few and long: chunks of them keep more of the GPU busy"
    ),
    "rows_persistent": ScheduleNames("rows"),
    "rows_looped": ScheduleNames("rows", why="Rows may be longer than registers hold."),
}
_IN_ORDER = "they are combined in order, so that results repeat."


def words_of(plan: KernelPlan) -> ScheduleNames:
    """The words of a kernel's schedule; one that has none here is called by its own name."""
    name = plan.schedule.name
    return _WORDS.get(name) or ScheduleNames(name)


def walk_of(plan: KernelPlan, names: KernelNames) -> str:
    """``, row by row``: how a kernel goes through its space; empty where what it goes along has no one word.

    A sum over a few paths, for each image, channel and pixel, goes along no columns.
    """
    walk = words_of(plan).walk
    if plan.schedule.is_tiled:
        walk = "in tiles" if plan.transposed else "in square tiles"
    elif plan.schedule.is_row_wise:
        row = names.axes[plan.rows[0].name].index if len(plan.rows) == 1 else "row"
        walk = f"{row} by {row}" if plan.rows else ""
    elif plan.schedule.is_down_columns and walk:
        col = names.axes[plan.cols[0].name].index if len(plan.cols) == 1 else ""
        walk = walk if col == "col" else f"{col} by {col}" if col else ""
    return f", {walk}" if walk else ""


def why_so(plan: KernelPlan) -> str:
    """What a reader would ask about how a program of the GPU walks: a sentence or two; empty where that is plain."""
    if plan.partials:
        # The order of atomic sums would be another one in each call.
        chunks = words_of(plan).why or "Each chunk has its own sums"
        return f"{chunks}; {_IN_ORDER}"
    if plan.schedule.is_down_columns:
        return ""
    loops = plan.passes if plan.schedule.is_row_by_row else ()
    is_read_again = len(loops) > 1 and not any(one.from_stage for one in loops)
    return words_of(plan).why + (" Each loop reads them again." if is_read_again else "")


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
