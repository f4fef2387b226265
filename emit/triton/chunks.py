"""Triton functions with loops: what their templates need, and how the results of chunks are combined."""

from __future__ import annotations

from collections.abc import Iterable

from longhand.emit.text.expression import Text, compose, word
from longhand.emit.triton.functions import (
    TO_WIDE,
    Axes,
    FunctionRole,
    FunctionText,
    needed,
    paragraphs,
    side_names,
)
from longhand.emit.triton.loops import Accumulator, LoopPrinter, PassLoop, identity_of
from longhand.emit.triton.scope import FileScope, language_dtype
from longhand.emit.triton.space import Side, Space
from longhand.lower.ir import Reduce, arguments
from longhand.schedule.named_plan import KernelNames, pointer_word
from longhand.schedule.plan import KernelPlan, OnlineSoftmax, Pass

SPLIT = word("split")  # the chunk


def combine_rows(
    plan: KernelPlan,
    names: KernelNames,
    scope: FileScope,
    one: Pass,
    base: Text,
    parts: tuple[Axes, Axes, Axes | None],
    sides: tuple[Axes, ...],
) -> tuple[FunctionText, LoopPrinter]:
    """The function that combines chunks of rows, for a block of columns."""
    rows, cols, batch = parts
    flats = tuple(side.flat for side in (batch, cols) if side is not None and side.keys)
    final = LoopPrinter(
        plan, names, scope, Space(flats, Side((), "SPLITS"), Side(cols.keys, "COLS", "in_cols")), SPLIT
    )
    combining = combine_chunks(plan, names, final, one, base, word("in_range"))
    context = {**loop_context(plan, rows, cols, [], [], batch), **combining}
    texts = lines_of(combining["paragraphs"])
    context["splits"] = needed((batch or cols).split_lines, texts)
    constants = (("SPLITS", "n_splits, rounded up to a power of two"), ("COLS", ""))
    does = "Each program combines the chunks of COLS columns"
    return FunctionText(does, context, constants, sides, FunctionRole.COMBINE, "combine"), final


def row_walk(plan: KernelPlan, names: KernelNames, scope: FileScope) -> tuple[Axes, Axes, LoopPrinter]:
    rows = side_names(plan, plan.rows, names, scope, "row", "n_rows")
    cols = side_names(plan, plan.cols, names, scope, "col", "n_cols", is_divided=True)
    flats = tuple(side.flat for side in (rows, cols) if side.keys)
    space = Space(flats, Side(rows.keys), Side(cols.keys, "COLS", "in_cols"))
    return rows, cols, LoopPrinter(plan, names, scope, space, cols.index, leaves_partials=bool(plan.partials))


def without_then(one: Pass) -> Pass:
    return Pass(one.compute, one.from_stage, one.reductions, one.stages, one.stores)


def lines_of(groups: object) -> list[Text]:
    assert isinstance(groups, list)
    return [line for group in groups for line in group]


def loop_context(
    plan: KernelPlan,
    rows: Axes,
    cols: Axes,
    before: list[list[Text]],
    loops: list[PassLoop],
    batch: Axes | None = None,
) -> dict[str, object]:
    """What the templates with loops need; the flattened index of the looped side is split inside the loop."""
    inside = [line for loop in loops for line in [*loop.shared, *lines_of(loop.body)]]
    outside = [line for loop in loops for line in [*loop.bases, *lines_of(loop.final)]] + lines_of(before)
    bases = list(dict.fromkeys(line for loop in loops for line in loop.bases))
    everything = [*inside, *outside]
    return {
        "rows": rows if rows.keys else None,
        "cols": cols if cols.keys else None,
        "batch": batch if batch is not None and batch.keys else None,
        "row_splits": needed(rows.split_lines, everything),
        "col_splits": needed(cols.split_lines, everything),
        "batch_splits": needed(batch.split_lines, everything) if batch is not None else [],
        "bases": bases,
        "before": before,
        "loops": loops,
        "wide_split": TO_WIDE if plan.widths.split else "",
        # A loop that starts at a wide number, or ends at one, has wide ones anyway.
        "casts_row": rows.is_wide and not (rows.is_long or plan.widths.split),
    }


def scratch_context(plan: KernelPlan, names: KernelNames) -> dict[str, object]:
    """What the host function allocates for the chunks' results, and where."""
    scratch = [
        {"name": names.pointers[pointer.name], "dtype": str(pointer.dtype)}
        for pointer in plan.pointers
        if pointer.scratch
    ]
    return {"scratch": scratch, "sibling": names.pointers[plan.pointers[0].name]}


def partial_stores(
    names: KernelNames, printer: LoopPrinter, one: Pass, at: Text, mask: Text | None
) -> list[Text]:
    """Stores of a chunk's results; the texts for them are what the loop left as final values."""
    ending = compose(", mask={})", mask) if mask else ")"
    stores = []
    for accumulator, partials in printer.partial_names(one):
        for partial in partials:
            text = printer.known[partial.position]
            if len(accumulator.names) == 2 and not isinstance(accumulator.reduction, OnlineSoftmax):
                text = printer.pairs[partial.position][partial.is_index]
            pointer = word(pointer_word(names.pointers[partial.pointer]))
            stores.append(compose("tl.store({} + {}, {}{}", pointer, at, text, ending))
    return stores


def combine_chunks(
    plan: KernelPlan,
    names: KernelNames,
    printer: LoopPrinter,
    one: Pass,
    at: Text,
    mask: Text,
) -> dict[str, object]:
    """The combining function: loads of the chunks' results, the final values, and what follows from them."""
    loads: list[Text] = []
    finals: list[Text] = []
    for accumulator, partials in printer.partial_names(one):
        words = tuple(names.pointers[partial.pointer] for partial in partials)
        for result, partial in zip(words, partials, strict=True):
            largest = (
                isinstance(accumulator.reduction, OnlineSoftmax)
                and partial.position == accumulator.reduction.max
            )
            other = identity_of(plan, partial, largest)
            place = compose("{} + {}", word(pointer_word(result)), at)
            loads.append(compose("{} = tl.load({}, mask={}, other={})", result, place, mask, other))
            if largest:
                reduce = plan.body[partial.position]
                assert isinstance(reduce, Reduce)
                printer.need_lowest(language_dtype(reduce.dtype))
        finals += printer.final(Accumulator(accumulator.reduction, words))
    lines, shared, bases = printer.lines([*_used_before(plan, one), *one.then], is_loop=False)
    assert not shared and not bases
    groups = [loads, *([finals] if finals else []), *paragraphs(lines)]
    if finals and len(groups) > 2 and len(groups[2]) == 1:
        groups[1:3] = [groups[1] + groups[2]]
    elif not finals and len(groups) > 1 and len(groups[0]) == 1:
        groups[0:2] = [groups[0] + groups[1]]
    return {"paragraphs": groups}


def _used_before(plan: KernelPlan, one: Pass) -> Iterable[int]:
    """Outer values from before the loop that the combining function evaluates again."""
    wanted = set(one.then)
    for position in sorted(set(plan.before) | wanted, reverse=True):
        if position in wanted:
            wanted |= set(arguments(plan.body[position]))
    return [position for position in plan.before if position in wanted]
