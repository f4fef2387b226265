"""Styles that walk the columns of a row: elementwise, tiles, reductions over a row, whole or in chunks."""

from __future__ import annotations

import dataclasses
import itertools

import torch

from longhand.emit.cpp.addresses import TransposedTile
from longhand.emit.cpp.body import AT, BodyPrinter, Known
from longhand.emit.cpp.headers import VECTOR
from longhand.emit.cpp.loops import (
    ColumnLoop,
    LoopStatement,
    accumulator_names,
    element_lines,
    flattened,
    levels,
    loop_of,
    needed_values,
    paragraphs,
    product_of_sizes,
    stores_as_statements,
)
from longhand.emit.cpp.reductions import ReductionVariable, accumulators, is_position, value_reduction
from longhand.emit.text.expression import Text
from longhand.lower.ir import Pointwise, PointwiseOp, Reduce, Store, Value, arguments
from longhand.schedule.names.words import first_free, further_names
from longhand.schedule.plan import OnlineSoftmax, Pass, Stage, SumType


@dataclasses.dataclass(frozen=True)
class Scratch:
    """A row-sized array of each thread: ``std::vector<float> residual_row(n_cols);``"""

    name: str
    type: str
    size: str


@dataclasses.dataclass(frozen=True)
class PassText:
    """The loops of one pass and the lines after them."""

    loops: tuple[ColumnLoop, ...]
    then: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class RowsText:
    """What the templates of row loops print: flat, rows, tiles, and the rows of a chunk.

    Attributes:
        before_all: Lines ahead of all loops.
        row_pointers: Declarations of base pointers.
        before_row: Lines at the start of a row.
        scratch: Row-sized arrays of each thread.
        passes: The loops over columns.
        transposed: What a tile copies, transposed, before its loops.
    """

    before_all: tuple[str, ...]
    row_pointers: tuple[str, ...]
    before_row: tuple[str, ...]
    scratch: tuple[Scratch, ...]
    passes: tuple[PassText, ...]
    transposed: tuple[TransposedTile, ...] = ()


class PassPrinter:
    """Prints the passes of one kernel over its rows."""

    def __init__(self, passes: tuple[Pass, ...], printer: BodyPrinter) -> None:
        self.passes = passes
        self.printer = printer
        self.cols = tuple(loop_of(axis, printer) for axis in printer.plan.cols)
        self.levels = levels(passes, printer)
        self.accumulator_names = accumulator_names(printer)
        self.known: dict[int, Text] = {p: Text(name) for p, name in self.accumulator_names.items()}
        self.inverses: dict[int, str] = {}
        for position in sorted(printer.inverted_sums):
            self.inverses[position] = self._unused_name("inverse")
            self.known[position] = Text(self.inverses[position])
        self.scratch: list[Scratch] = []
        self.staged: dict[int, Stage] = {}
        self.scratch_rows: dict[int, str] = {}  # of staged values that wait in a row of their own
        for one_pass in passes:
            for stage in one_pass.stages:
                self.staged[stage.position] = stage
                if stage.store is None:
                    self.scratch_rows[stage.position] = self._scratch_row(stage)
                else:
                    printer.element(stage.store)  # whose row pointer is wanted from here on

    def outer_lines(self, level: int, only: frozenset[int] | None = None) -> tuple[str, ...]:
        """Lines and stores that vary over rows at most and are known after pass `level` (-1: before all).

        `only`: leave out declarations of other values.
        """
        lines: list[str] = []
        body = self.printer.plan.body
        for position, known_after in self.levels.items():
            if known_after != level or isinstance(body[position], Reduce):
                continue
            if isinstance(body[position], Store):
                lines.append(self.printer.store(position, self.known))
            elif position in self.printer.names.values and (only is None or position in only):
                lines.append(self.printer.declaration(position, self.known))
        return tuple(lines)

    def needed_by(self, roots: list[int]) -> frozenset[int]:
        """The roots and everything that they are computed from, reductions and what stands before them left out."""
        roots = [position for position in roots if position not in self.accumulator_names]
        return frozenset(needed_values(roots, frozenset(self.accumulator_names), self.printer))

    def column_loops(self, number: int) -> tuple[ColumnLoop, ...]:
        """The loops of one pass: one, and more where a position is looked for."""
        one_pass = self.passes[number]
        first = tuple(r.max if isinstance(r, OnlineSoftmax) else r for r in one_pass.reductions)
        positions = [p for p in first if is_position(self._reduce(p).op)]
        if not positions:
            loops = [self._main_loop(one_pass, first)]
        else:
            # The loop that looks for the place reads the row again, so what overwrites it comes last.
            reading = dataclasses.replace(one_pass, stages=(), stores=())
            loops = [self._main_loop(reading, first)]
            loops += [self._position_loop(reading, position) for position in positions]
            if one_pass.stages or one_pass.stores:
                loops.append(self._main_loop(one_pass, ()))
        # A plain CPU loop gains nothing from a running maximum: the sum is a loop of its own.
        later = Pass(one_pass.compute, one_pass.from_stage)
        loops += [
            self._main_loop(later, (r.sum,)) for r in one_pass.reductions if isinstance(r, OnlineSoftmax)
        ]
        return tuple(loops)

    def accumulators_of(self, position: int) -> tuple[ReductionVariable, ...]:
        """The variables of one reduction; of an ARG reduction, those that find the extreme value."""
        reduce = self._reduce(position)
        name = self.accumulator_names[position]
        if is_position(reduce.op):
            name = self._extreme_name(position)
        drops_nan = position in self.printer.plan.numerics.drops_nan
        kind = self.printer.plan.numerics.sum_types.get(position, SumType.FLOAT)
        if kind is not SumType.FLOAT:
            reduce = dataclasses.replace(reduce, dtype=torch.float64)
        variables = accumulators(value_reduction(reduce), name, self._dtype(reduce.arg), drops_nan)
        self.printer.needs.update(*(variable.needs for variable in variables))
        if position in self.inverses:
            one = "1.0f" if kind is SumType.FLOAT else "1.0"
            repair = f"const float {self.inverses[position]} = {one} / {name};"
            return (dataclasses.replace(variables[0], repair=repair),)
        if kind is SumType.DOUBLE_THEN_FLOAT:
            wide = self._unused_name(f"wide_{name}")
            variables = (
                dataclasses.replace(variables[0], name=wide, repair=f"const float {name} = {wide};"),
            )
        return variables

    def column_sum(self, position: int) -> ReductionVariable:
        """What a sum across the rows of a chunk is accumulated in: as it is, chunks are short."""
        reduce = self._reduce(position)
        (variable,) = accumulators(reduce, self.accumulator_names[position], self._dtype(reduce.arg))
        self.printer.needs |= variable.needs
        return variable

    def _unused_name(self, word: str) -> str:
        names = self.printer.names
        taken = {*names.values.values(), *names.pointers.values(), *self.accumulator_names.values()}
        taken |= {*self.inverses.values()}
        return first_free(itertools.chain([word], further_names(word)), taken)

    def _main_loop(self, one_pass: Pass, reductions: tuple[int, ...]) -> ColumnLoop:
        """Printed twice: an index that several statements use, and that is more than a variable, gets a line."""
        self.printer.asked.clear()
        draft = self._printed_loop(one_pass, reductions)
        index, count = max(self.printer.asked.items(), key=lambda one: one[1], default=("", 0))
        if count < 2 or index not in self.printer.multiplied:
            return draft
        self.printer.shared_index = index
        loop = self._printed_loop(one_pass, reductions)
        self.printer.shared_index = ""
        first, *rest = loop.lines
        return dataclasses.replace(loop, lines=((f"const long {AT} = {index};", *first), *rest))

    def _printed_loop(self, one_pass: Pass, reductions: tuple[int, ...]) -> ColumnLoop:
        printer, body = self.printer, self.printer.plan.body
        variables: dict[ReductionVariable, int] = {}
        for position in reductions:
            variables.update(dict.fromkeys(self.accumulators_of(position), self._reduce(position).arg))
        stores = tuple(p for p in one_pass.stores if printer.domains[p] & printer.loop_axes)
        roots = [stage.position for stage in one_pass.stages]
        roots += variables.values()
        roots += [self._reduce(position).arg for position in one_pass.sums]
        roots += [argument for p in stores for argument in arguments(body[p])]
        own_rows = {(stage.position, stage.store) for stage in one_pass.stages}
        statements = [LoopStatement((stage.position,), self._row_of(stage)) for stage in one_pass.stages]
        statements += [LoopStatement((arg,)) for arg in variables.values()]
        statements += [LoopStatement((self._reduce(position).arg,)) for position in one_pass.sums]
        statements += stores_as_statements(
            tuple(p for p in stores if (self._stored(p), p) not in own_rows), printer
        )
        lines, known = self._lines(roots, tuple(statements), one_pass)

        end = [
            f"{self._waiting(stage.position).text} = {printer.expression(stage.position, known).text};"
            for stage in one_pass.stages
        ]
        end += [
            accumulator.take.format(
                acc=accumulator.name,
                element=printer.expression(
                    _counted(arg, body) if accumulator.clause == "+" else arg, known
                ).text,
            )
            for accumulator, arg in variables.items()
        ]
        end += [
            self.column_sum(position).take.format(
                acc=f"{self.accumulator_names[position]}[{flattened(self.cols).text}]",
                element=printer.expression(self._reduce(position).arg, known).text,
            )
            for position in one_pass.sums
        ]
        end += [printer.store(p, known) for p in stores if (self._stored(p), p) not in own_rows]
        repairs = tuple(accumulator.repair for accumulator in variables if accumulator.repair)
        return ColumnLoop("", tuple(variables), paragraphs(lines, tuple(end)), repairs)

    def _position_loop(self, one_pass: Pass, position: int) -> ColumnLoop:
        """The second loop of ARGMAX and ARGMIN: the first place that holds the extreme value, or NaN."""
        reduce = self._reduce(position)
        lines, known = self._lines([reduce.arg], (), one_pass)
        element = self.printer.expression(reduce.arg, known).text
        extreme, name = self._extreme_name(position), self.accumulator_names[position]
        place, nowhere = flattened(self.cols).text, product_of_sizes(self.cols).text
        or_nan = f" || {element} != {element}" if self._dtype(reduce.arg).is_floating_point else ""
        find = (
            f"const long place = {element} == {extreme}{or_nan} ? {place} : {nowhere};",
            f"{name} = place < {name} ? place : {name};",
        )
        accumulator = ReductionVariable(name, "long", nowhere, "min", "", "")
        return ColumnLoop(f"The first place of {extreme}.", (accumulator,), ((*lines, *find),))

    def _lines(
        self, roots: list[int], statements: tuple[LoopStatement, ...], one_pass: Pass
    ) -> tuple[list[str], Known]:
        staged = {position: self._waiting(position) for position in one_pass.from_stage}
        known = {**self.known, **staged}
        return element_lines(roots, statements, frozenset(self.levels), known, self.printer)

    def _extreme_name(self, position: int) -> str:
        """The accumulator that holds the extreme value whose place an ARG reduction wants."""
        wanted = value_reduction(self._reduce(position))
        is_shared = not self.printer.plan.partials  # chunks combine a place together with its own value
        for other, name in self.accumulator_names.items() if is_shared else ():
            if other in self.printer.plan.numerics.drops_nan:
                continue  # a place must see the NaN that this one does not track
            reduce = self._reduce(other)
            if (reduce.op, reduce.arg) == (wanted.op, wanted.arg) and self.levels[other] == self.levels[
                position
            ]:
                return name
        return f"{self.accumulator_names[position]}_best"

    def _waiting(self, position: int) -> Text:
        """Where a value waits for a later loop."""
        printer, stage = self.printer, self.staged[position]
        if stage.store is None:
            index = flattened(self.cols).text
            return Text(f"{self.scratch_rows[position]}[{AT if index == printer.shared_index else index}]")
        asked, followed = printer.asked.copy(), set(printer.followed)
        element = printer.element(stage.store)
        printer.asked, printer.followed = asked, followed  # it is the store that asks for its address
        return Text(element)

    def _row_of(self, stage: Stage) -> str:
        """The buffer that a staged value waits in; empty for a scratch row, which is its own."""
        store = None if stage.store is None else self.printer.plan.body[stage.store]
        return store.buffer if isinstance(store, Store) else ""

    def _scratch_row(self, stage: Stage) -> str:
        """A row of its own for a staged value, which is declared."""
        word = self.printer.names.values.get(stage.position, "kept")
        kind = self.printer.type_of(self._dtype(stage.position))
        self.scratch.append(Scratch(f"{word}_row", kind, product_of_sizes(self.cols).text))
        self.printer.needs.add(VECTOR)
        return f"{word}_row"

    def _reduce(self, position: int) -> Reduce:
        value = self.printer.plan.body[position]
        assert isinstance(value, Reduce)
        return value

    def _stored(self, position: int) -> int:
        value = self.printer.plan.body[position]
        assert isinstance(value, Store)
        return value.value

    def _dtype(self, position: int) -> torch.dtype:
        value = self.printer.plan.body[position]
        assert not isinstance(value, Store)
        return value.dtype


def rows_text(passes: PassPrinter, has_rows: bool) -> RowsText:
    """What the templates of row loops print."""
    printer = passes.printer
    early = [p for p in printer.row_pointers if not p.values]
    late = [p for p in printer.row_pointers if p.values]
    texts = tuple(
        PassText(passes.column_loops(number), passes.outer_lines(number))
        for number in range(len(passes.passes))
    )
    before = passes.outer_lines(-1)
    after = tuple(printer.pointer_declaration(pointer) for pointer in late)
    return RowsText(
        before_all=() if has_rows else (*before, *after),
        row_pointers=tuple(printer.pointer_declaration(pointer) for pointer in early),
        before_row=(*before, *after) if has_rows else (),
        scratch=tuple(passes.scratch),
        passes=texts,
        transposed=tuple(printer.transposed.values()),
    )


def _counted(position: int, body: tuple[Value, ...]) -> int:
    """What is added up: of a condition that is cast to a number the condition, which C++ counts as it is."""
    value = body[position]
    if isinstance(value, Pointwise) and value.op is PointwiseOp.CAST:
        inner = body[value.args[0]]
        if not isinstance(inner, Store) and inner.dtype is torch.bool:
            return value.args[0]
    return position
