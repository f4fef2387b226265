"""COLUMNS: reductions over the rows. A thread takes a block of columns, and of the rows where they are split."""

from __future__ import annotations

import dataclasses

import torch

from longhand.emit.cpp.body import BodyPrinter, Known
from longhand.emit.cpp.loops import (
    CppLoop,
    accumulator_names,
    element_lines,
    flattened,
    is_used,
    levels,
    loop_of,
    needed_values,
    paragraphs,
    product_of_sizes,
    stores_as_statements,
)
from longhand.emit.cpp.reductions import ReductionVariable, accumulators, is_position, value_reduction
from longhand.emit.cpp.splits import PartialText, number_of_splits, takes_over
from longhand.emit.text.expression import Precedence, Text
from longhand.lower.ir import Reduce, Store, arguments


@dataclasses.dataclass(frozen=True)
class Lanes:
    """One value for each column of a block: ``float sum[COLS]``, or a row of partial results."""

    name: str
    type: str
    start: str
    partial: str = ""
    clause: str = ""


@dataclasses.dataclass(frozen=True)
class ColumnsPass:
    """One walk over the rows.

    Attributes:
        row_lines: Lines at the start of a row: base pointers, values that vary over rows.
        lines: Statements for each element.
        then: Statements for each column after the rows.
    """

    row_lines: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    then: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class ColumnsText:
    """What templates/cpp/columns.cpp.jinja prints.

    Attributes:
        batch: Outer column loops.
        col: The innermost column loop.
        lanes: One accumulator for each column.
        passes: The walks over the rows.
        n_splits: The number of chunks of the rows; empty where they are not split.
        chunk: Steps of the outermost row loop in one chunk.
        n_partials: The size of each vector of partial results.
        partial_row: Where the row of partial results of a chunk begins.
        partials: The vectors.
        combine: Statements that take a further chunk for one column.
        place: A column's place in the results of the first chunk.
        n_columns: Distance between the results of two chunks.
    """

    batch: tuple[CppLoop, ...]
    col: CppLoop
    lanes: tuple[Lanes, ...]
    passes: tuple[ColumnsPass, ...]
    n_splits: str = ""
    chunk: str = ""
    n_partials: str = ""
    partial_row: str = ""
    partials: tuple[PartialText, ...] = ()
    combine: tuple[str, ...] = ()
    place: str = ""


class ColumnsPrinter:
    """Prints the passes of one kernel over the rows of its columns."""

    def __init__(self, printer: BodyPrinter) -> None:
        self.printer = printer
        self.plan = printer.plan
        self.rows = tuple(loop_of(axis, printer) for axis in self.plan.rows)
        self.cols = tuple(loop_of(axis, printer) for axis in self.plan.cols)
        self.levels = self._levels()
        self.names = accumulator_names(printer)
        self.is_split = bool(self.plan.partials)
        col = self.cols[-1].index
        self.at = f"[{col}]" if self.is_split else f"[{col} - begin]"
        self.known: dict[int, Text] = {p: Text(name + self.at) for p, name in self.names.items()}
        self.kept = self._kept_values()
        self.known_later = {p: Text(printer.names.values[p] + self.at) for p in self.kept}

    def _levels(self) -> dict[int, int]:
        """For each outer value the pass after which it is known; a store is never before all of them."""
        known_after = levels(self.plan.passes, self.printer)
        after = {p: number for number, one_pass in enumerate(self.plan.passes) for p in one_pass.then}
        stores = [p for p in known_after if isinstance(self.plan.body[p], Store)]
        return known_after | {p: max(known_after[p], after[p]) for p in stores}

    def text(self) -> ColumnsText:
        """Everything that the template needs."""
        passes = tuple(self._pass(number) for number in range(len(self.plan.passes)))
        text = ColumnsText(self.cols[:-1], self.cols[-1], self._lanes(), passes)
        if not self.is_split:
            return text
        split = CppLoop("split", "n_splits")
        within = flattened((split, *self.cols[:-1])).within(Precedence.PRODUCT)
        chunks = (split, *self.cols)
        return dataclasses.replace(
            text,
            n_splits=number_of_splits(self.rows, "ROWS"),
            chunk=f"({self.rows[0].size} + n_splits - 1) / n_splits",
            n_partials=product_of_sizes(chunks).text,
            partial_row=f"{within} * {self.cols[-1].size}",
            partials=tuple(
                PartialText(lane.partial, lane.type, lane.name, lane.clause) for lane in self._lanes()
            ),
            combine=self._combine(flattened(chunks).text),
            place=flattened(self.cols).text,
        )

    def _pass(self, number: int) -> ColumnsPass:
        one_pass = self.plan.passes[number]
        known: Known = {
            **self.known,
            **{p: t for p, t in self.known_later.items() if self.levels[p] < number},
        }
        reductions = [p for p in one_pass.reductions if isinstance(p, int)]
        roots = [self._reduce(p).arg for p in reductions]
        stores = tuple(p for p in one_pass.stores if p not in self.levels)
        roots += [argument for p in stores for argument in arguments(self.plan.body[p])]
        by_row = self._row_values(roots, known)
        self.printer.followed.clear()
        row_lines = tuple(self.printer.declaration(p, known) for p in by_row)
        lines, known_here = element_lines(
            roots,
            stores_as_statements(stores, self.printer),
            frozenset(by_row),
            known,
            self.printer,
            reload=False,
        )
        end = [statement for p in reductions for statement in self._take(p, known_here)]
        end += [self.printer.store(p, known_here) for p in stores]
        row_lines = (*self.printer.pointer_declarations(), *row_lines)
        return ColumnsPass(row_lines, paragraphs(lines, tuple(end)), self._then(number))

    def _then(self, number: int) -> tuple[tuple[str, ...], ...]:
        """For each column, what is computed once its rows have been walked."""
        known: Known = {
            **self.known,
            **{p: t for p, t in self.known_later.items() if self.levels[p] < number},
        }
        if self.is_split:
            known = {p: Text(name) for p, name in self.names.items()}
        body = self.plan.body
        kept = [p for p in self.kept if self.levels[p] == number]
        stores = tuple(
            p for p, level in self.levels.items() if isinstance(body[p], Store) and level == number
        )
        lines: list[str] = []
        for position in kept:
            # Its name is the lanes': each column's value goes straight there.
            roots = list(arguments(body[position]))
            more, local = element_lines(roots, (), frozenset(), known, self.printer, reload=False)
            value = self.printer.expression(position, local, top=True).text
            lines += [*more, f"{self.known_later[position].text} = {value};"]
            known = {**local, position: self.known_later[position]}
        roots = [argument for p in stores for argument in arguments(body[p])]
        more, known = element_lines(
            roots, stores_as_statements(stores, self.printer), frozenset(), known, self.printer, reload=False
        )
        end = [self.printer.store(p, known) for p in stores]
        return paragraphs([*lines, *more], tuple(end))

    def _take(self, position: int, known: Known) -> tuple[str, ...]:
        """The statements that add an element to the accumulator of its column."""
        reduce = self._reduce(position)
        element = self.printer.expression(reduce.arg, known).text
        accumulator = self._accumulator(position)
        value = accumulator.name + self.at
        if not is_position(reduce.op):
            self.printer.needs |= accumulator.needs_to_combine
            return (accumulator.combine.format(acc=value, other=element),)
        place = self.names[position] + self.at
        better = takes_over(accumulator.clause, element, value, self._dtype(reduce.arg).is_floating_point)
        flag = f"{self.names[position]}_moves"
        return (
            f"const bool {flag} = {better};",
            f"{value} = {flag} ? {element} : {value};",
            f"{place} = {flag} ? {flattened(self.rows).text} : {place};",
        )

    def _lanes(self) -> tuple[Lanes, ...]:
        """The accumulators of every pass, then what is kept from one pass to the next."""
        lanes: list[Lanes] = []
        partials = {
            (p.position, p.is_index): self.printer.names.pointers[p.pointer] for p in self.plan.partials
        }
        for position, name in self.names.items():
            reduce = self._reduce(position)
            variable = self._accumulator(position)
            lanes.append(
                Lanes(
                    variable.name,
                    variable.type,
                    variable.start,
                    partials.get((position, False), ""),
                    variable.clause,
                )
            )
            if is_position(reduce.op):
                lanes.append(Lanes(name, "long", self._first_place(), partials.get((position, True), "")))
        lanes += [
            Lanes(self.printer.names.values[p], self.printer.type_of(self._dtype(p)), "") for p in self.kept
        ]
        return tuple(lanes)

    def _accumulator(self, position: int) -> ReductionVariable:
        """The variable of one reduction; of an ARG reduction, the one that finds the extreme value.

        Chunks of the rows accumulate in float: they are short, and are combined in double.
        """
        reduce = self._reduce(position)
        if position in self.plan.numerics.sum_types:
            reduce = dataclasses.replace(reduce, dtype=torch.float64)
        name, dtype = self._value_name(position), self._dtype(reduce.arg)
        variable = accumulators(value_reduction(reduce), name, dtype)[0]
        self.printer.needs |= variable.needs
        return variable

    def _first_place(self) -> str:
        if not self.is_split:
            return "0"
        inner = product_of_sizes(self.rows[1:])
        return "split * chunk" if len(self.rows) == 1 else f"split * chunk * {inner.within(Precedence.UNARY)}"

    def _combine(self, place: str) -> tuple[str, ...]:
        statements: list[str] = []
        words = {(p.position, p.is_index): self.printer.names.pointers[p.pointer] for p in self.plan.partials}
        for position in self.names:
            reduce = self._reduce(position)
            dtype = self._dtype(reduce.arg)
            accumulator = self._accumulator(position)
            other = f"{words[position, False]}[{place}]"
            if not is_position(reduce.op):
                self.printer.needs |= accumulator.needs_to_combine
                statements.append(accumulator.combine.format(acc=accumulator.name, other=other))
                continue
            better = takes_over(accumulator.clause, other, accumulator.name, dtype.is_floating_point)
            moved = f"{self.names[position]} = {words[position, True]}[{place}];"
            statements.append(f"if ({better}) {{ {accumulator.name} = {other}; {moved} }}")
        return tuple(statements)

    def _row_values(self, roots: list[int], known: Known) -> list[int]:
        """Named values that vary over rows at most: computed once a row."""
        needed = needed_values(roots, frozenset(known), self.printer)
        axes, names = self.printer.col_axes, self.printer.names.values
        return [p for p in needed if p in names and not self.printer.domains[p] & axes]

    def _kept_values(self) -> tuple[int, ...]:
        """Named outer values, known after some pass, that a later one uses."""
        body, names = self.plan.body, self.printer.names.values
        kept: list[int] = []
        for position, level in self.levels.items():
            if level < 0 or position not in names or isinstance(body[position], Reduce | Store):
                continue
            users = [user for user, value in enumerate(body) if position in arguments(value)]
            if is_used(position, self.printer) and any(
                self.levels.get(user, level + 1) > level for user in users
            ):
                kept.append(position)
        return tuple(kept)

    def _value_name(self, position: int) -> str:
        name = self.names[position]
        return f"{name}_best" if is_position(self._reduce(position).op) else name

    def _reduce(self, position: int) -> Reduce:
        value = self.plan.body[position]
        assert isinstance(value, Reduce)
        return value

    def _dtype(self, position: int) -> torch.dtype:
        value = self.plan.body[position]
        assert not isinstance(value, Store)
        return value.dtype
