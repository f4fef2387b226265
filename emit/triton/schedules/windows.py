"""A block of results for each program, and loops over the places of the window that each result sees."""

from __future__ import annotations

from longhand.emit.text.expression import Text, compose, word
from longhand.emit.triton.chunks import lines_of
from longhand.emit.triton.functions import (
    FunctionText,
    KernelText,
    masks_in,
    needed,
    paragraphs,
    side_names,
)
from longhand.emit.triton.loops import Accumulator, LoopPrinter
from longhand.emit.triton.scope import FileScope
from longhand.emit.triton.space import Side, Space
from longhand.errors import ScheduleError
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan, Pass


class WindowPrinter(LoopPrinter):
    """Prints the loops over a window: a result is what the loops leave, with no lanes to reduce."""

    def _accumulators(self, one: Pass) -> list[Accumulator]:
        accumulators = []
        for accumulator in super()._accumulators(one):
            position = accumulator.reduction
            assert isinstance(position, int)
            name = self.names.values.get(position)
            accumulators.append(accumulator if name is None else Accumulator(position, (name,)))
        return accumulators

    def final(self, accumulator: Accumulator) -> list[Text]:
        """Nothing: the accumulator is the value."""
        assert isinstance(accumulator.reduction, int)
        self.known[accumulator.reduction] = word(accumulator.names[0])
        return []


def functions(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One program for each block of results."""
    if plan.has_wide_index(axis.name for axis in plan.rows):
        raise ScheduleError("The step from one place of a window to the next passes 32 bits.")
    rows = side_names(plan, plan.cols[:-1], names, scope, "row", "n_rows")
    cols = side_names(plan, plan.cols[-1:], names, scope, "col", "n_cols", is_divided=plan.widths.flat_grid)
    tile = bool(rows.keys)
    columns = "COLS" if tile else "BLOCK"
    space = Space(
        flats=tuple(side.flat for side in (rows, cols) if side.keys),
        rows=Side(rows.keys, "ROWS" if tile else "", "in_rows" if tile else None),
        cols=Side(cols.keys, columns, "in_cols" if tile else "in_range"),
        width=f"[ROWS, {columns}]" if tile else f"[{columns}]",
    )
    printer = WindowPrinter(plan, names, scope, space, index=Text(""))
    before = paragraphs(printer.lines(plan.before, is_loop=False)[0])
    (one,) = plan.passes
    loop = printer.loop(one)
    texts = [*loop.bases, *loop.shared, *lines_of(loop.body), *lines_of(loop.final), *lines_of(before)]
    context: dict[str, object] = {
        "rows": rows if tile else None,
        "cols": cols,
        "flat_grid": plan.widths.flat_grid,
        "masks": masks_in(texts),
        "splits": needed(rows.split_lines, texts),
        "bases": loop.bases,
        "before": before,
        "initial": loop.initial,
        "loops": [
            compose(
                "for {} in tl.static_range({}):",
                word(names.axes[axis.name].index),
                word(names.axes[axis.name].size),
            )
            for axis in plan.rows
        ],
        "inside": [*loop.shared, *lines_of(loop.body)],
        "loop_text": loop,
    }
    does = f"Each program computes a block of {'ROWS x COLS' if tile else 'BLOCK'} results"
    constants = (("ROWS", ""), ("COLS", "")) if tile else (("BLOCK", ""),)
    function = FunctionText(does, context, constants, (rows, cols))
    return KernelText((function,), tuple(sorted(printer.constants)))
