"""A block of results for each program, and loops over the places of the window that each result sees."""

from __future__ import annotations

import dataclasses

from longhand.emit.text.expression import Precedence, Text, compose, word
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
from longhand.lower.ir import Reduce, ReduceOp
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan, Pass


@dataclasses.dataclass(frozen=True)
class _Contest:
    """The names of an element, of the largest before it, and of whether it wins over that one."""

    element: Text
    best: Text
    wins: Text


class WindowPrinter(LoopPrinter):
    """Prints the loops over a window: a result is what the loops leave, with no lanes to reduce.

    Whether an element wins is asked once, for the largest so far and for its place.
    """

    def __init__(self, plan: KernelPlan, names: KernelNames, scope: FileScope, space: Space) -> None:
        super().__init__(plan, names, scope, space, index=Text(""))
        self.contests: dict[int, _Contest] = {}  # by the element's position

    def _accumulators(self, one: Pass) -> list[Accumulator]:
        """Winners first: an element is compared with the largest before it."""
        named = [self._named(accumulator) for accumulator in super()._accumulators(one)]
        of = {op: [a for a in named if self._reduction(a).op is op] for op in (ReduceOp.MAX, ReduceOp.WINNER)}
        largest = {self._reduction(accumulator).arg: accumulator.names[0] for accumulator in of[ReduceOp.MAX]}
        for accumulator in of[ReduceOp.WINNER]:
            arg = self._reduction(accumulator).arg
            if arg not in largest:
                raise ScheduleError("A winner is told of a window whose largest element nobody wants.")
            element = self.names.values.get(arg) or self.scope.name(("element", arg), "element", "candidate")
            wins = self.scope.name(("wins", arg), "wins", "is_winner")
            self.contests[arg] = _Contest(word(element), word(largest[arg]), word(wins))
        return [*of[ReduceOp.WINNER], *(a for a in named if a not in of[ReduceOp.WINNER])]

    def _named(self, accumulator: Accumulator) -> Accumulator:
        """Under the reduction's own name, if it has one."""
        assert isinstance(accumulator.reduction, int)
        name = self.names.values.get(accumulator.reduction)
        return accumulator if name is None else Accumulator(accumulator.reduction, (name,))

    def _reduction(self, accumulator: Accumulator) -> Reduce:
        assert isinstance(accumulator.reduction, int)
        return self._reduce(accumulator.reduction)

    def _initial(self, accumulator: Accumulator) -> list[Text]:
        if self._reduction(accumulator).op is ReduceOp.WINNER:
            return [Text(f"{accumulator.names[0]} = tl.zeros({self.space.width}, tl.int32)")]
        return super()._initial(accumulator)

    def _update(self, accumulator: Accumulator) -> list[Text]:
        reduce, name = self._reduction(accumulator), word(accumulator.names[0])
        contest = self.contests.get(reduce.arg)
        if contest is not None and reduce.op is ReduceOp.MAX:
            return [compose("{} = tl.where({}, {}, {})", name, contest.wins, contest.element, name)]
        if reduce.op is not ReduceOp.WINNER:
            return super()._update(accumulator)
        assert contest is not None
        argument = self._block().expression(reduce.arg, top=False)
        first = [] if argument == contest.element else [compose("{} = {}", contest.element, argument)]
        larger = compose(
            "({} > {}) | ({} != {})", contest.element, contest.best, contest.element, contest.element
        )
        here = compose("{} = tl.where({}, {}, {})", name, contest.wins, self._place(), name)
        return [*first, compose("{} = {}", contest.wins, larger), here]

    def _place(self) -> Text:
        """Where the loops are in the window: ``window_line * n_window_columns + window_column``."""
        axes = [self.names.axes[axis.name] for axis in self.plan.rows]
        place = word(axes[0].index)
        for axis in axes[1:]:
            place = compose(
                "{} * {} + {}",
                place.operand(Precedence.PRODUCT),
                word(axis.size),
                word(axis.index),
                precedence=Precedence.SUM,
            )
        return place

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
    printer = WindowPrinter(plan, names, scope, space)
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
