"""The loops of a kernel as data for the templates: passes over the columns of a row, with their statements."""

from __future__ import annotations

import dataclasses

from longhand.emit.cpp_body import BodyPrinter, Known, inline_closure
from longhand.emit.cpp_reductions import Accumulator, accumulators, is_position
from longhand.emit.cpp_types import cpp_type
from longhand.emit.expression import Text
from longhand.lower.ir import Load, Reduce, ReduceOp, Store, arguments
from longhand.schedule.plan import OnlineSoftmax, Pass, PlanAxis, Stage


@dataclasses.dataclass(frozen=True)
class Loop:
    """``for (long index = 0; index < size; ++index)``"""

    index: str
    size: str


@dataclasses.dataclass(frozen=True)
class ColumnLoop:
    """One loop over the columns.

    Attributes:
        comment: A line above it, or empty.
        accumulators: Declared before it.
        lines: Statements for each element, in paragraphs.
        after: Statements after it.
    """

    comment: str
    accumulators: tuple[Accumulator, ...]
    lines: tuple[tuple[str, ...], ...]
    after: tuple[str, ...] = ()

    @property
    def clauses(self) -> str:
        """``reduction(+ : sum, sum_of_squares) reduction(max : row_max)``"""
        by_operator: dict[str, list[str]] = {}
        for accumulator in self.accumulators:
            by_operator.setdefault(accumulator.clause, []).append(accumulator.name)
        return " ".join(f"reduction({op} : {', '.join(names)})" for op, names in by_operator.items())


@dataclasses.dataclass(frozen=True)
class Scratch:
    """A row-sized array of each thread: ``std::vector<float> residual_row(n_cols);``"""

    name: str
    type: str
    size: str


def loop_of(axis: PlanAxis, printer: BodyPrinter) -> Loop:
    """The loop over one axis."""
    words = printer.names.axes[axis.name]
    return Loop(words.index, words.size)


def levels(passes: tuple[Pass, ...], printer: BodyPrinter) -> dict[int, int]:
    """For each value that does not vary along the column loop: the pass after which it is known, -1 for before all."""
    of_reduce: dict[int, int] = {}
    for number, one_pass in enumerate(passes):
        for reduction in one_pass.reductions:
            members = (reduction.max, reduction.sum) if isinstance(reduction, OnlineSoftmax) else (reduction,)
            of_reduce.update(dict.fromkeys(members, number))
    found: dict[int, int] = {}
    for position, value in enumerate(printer.plan.body):
        if printer.domains[position] & printer.loop_axes:
            continue
        if isinstance(value, Reduce):
            found[position] = of_reduce[position]
        else:
            found[position] = max((found[argument] for argument in arguments(value)), default=-1)
    return found


class PassPrinter:
    """Prints the passes of one kernel."""

    def __init__(self, passes: tuple[Pass, ...], printer: BodyPrinter) -> None:
        self.passes = passes
        self.printer = printer
        self.levels = levels(passes, printer)
        self.accumulator_names = self._name_accumulators()
        self.known: dict[int, Text] = {p: Text(name) for p, name in self.accumulator_names.items()}
        self.scratch: dict[int, Scratch] = {}
        self.staged: dict[int, Text] = {}
        for one_pass in passes:
            for stage in one_pass.stages:
                self._place(stage)

    # ---- outside the column loops ----

    def fixed_lines(self, level: int, known: Known | None = None) -> tuple[str, ...]:
        """Lines and stores that vary over rows only and are known after pass `level` (-1: before all)."""
        lines: list[str] = []
        body = self.printer.plan.body
        for position, found in self.levels.items():
            if found != level or isinstance(body[position], Reduce):
                continue
            if isinstance(body[position], Store):
                lines.append(self.printer.store(position, known or self.known))
            elif position in self.printer.names.values and self._is_used(position):
                lines.append(self.printer.declaration(position, known or self.known))
        return tuple(lines)

    def _is_used(self, position: int) -> bool:
        return any(position in arguments(value) for value in self.printer.plan.body) or any(
            position in (p for p, _ in address.values) for address in self.printer.plan.addresses.values()
        )

    # ---- column loops ----

    def column_loops(self, number: int) -> tuple[ColumnLoop, ...]:
        """The loops of one pass: one, and one more where a position is looked for."""
        one_pass = self.passes[number]
        body = self.printer.plan.body
        reductions: list[int] = []
        for reduction in one_pass.reductions:
            if isinstance(reduction, OnlineSoftmax):
                reductions.append(reduction.max)
            else:
                reductions.append(reduction)
        loops = [self._main_loop(one_pass, tuple(reductions))]
        for position in reductions:
            value = body[position]
            if isinstance(value, Reduce) and is_position(value.op):
                loops.append(self._position_loop(one_pass, position))
        for reduction in one_pass.reductions:
            if isinstance(reduction, OnlineSoftmax):
                loops.append(self._main_loop(Pass(one_pass.compute, one_pass.from_stage), (reduction.sum,)))
        return tuple(loops)

    def _main_loop(self, one_pass: Pass, reductions: tuple[int, ...]) -> ColumnLoop:
        body = self.printer.plan.body
        known = self._known_in(one_pass)
        roots = [stage.position for stage in one_pass.stages]
        found: list[tuple[Accumulator, int]] = []
        for position in reductions:
            value = body[position]
            assert isinstance(value, Reduce)
            roots.append(value.arg)
            found += [(acc, value.arg) for acc in self._accumulators(position, reductions)]
        stores = tuple(p for p in one_pass.stores if self.printer.domains[p] & self.printer.loop_axes)
        roots += [argument for p in stores for argument in arguments(body[p])]
        lines, known = self._lines(roots, stores, known)

        writes = [
            f"{self.staged[s.position].text} = {self.printer.expression(s.position, known).text};"
            for s in one_pass.stages
        ]
        takes = [
            acc.take.format(acc=acc.name, element=self.printer.expression(arg, known).text)
            for acc, arg in found
        ]
        stored = [self.printer.store(p, known) for p in stores]
        repairs = tuple(acc.repair for acc, _ in found if acc.repair)
        end = (*writes, *takes, *stored)
        paragraphs = (tuple(lines), end) if len(lines) > 2 else ((*lines, *end),)
        return ColumnLoop("", tuple(acc for acc, _ in found), tuple(p for p in paragraphs if p), repairs)

    def _position_loop(self, one_pass: Pass, position: int) -> ColumnLoop:
        """The second loop of ARGMAX and ARGMIN: the first place that holds the extreme value, or NaN."""
        value = self.printer.plan.body[position]
        assert isinstance(value, Reduce)
        lines, known = self._lines([value.arg], (), self._known_in(one_pass))
        element = self.printer.expression(value.arg, known).text
        dtype = self.printer.plan.body[value.arg].dtype
        extreme, name = self.extreme_name(position), self.accumulator_names[position]
        cols = [loop_of(axis, self.printer) for axis in self.printer.plan.cols]
        place = cols[0].index
        for col in cols[1:]:
            place = (
                f"({place}) * {col.size} + {col.index}"
                if "+" in place
                else f"{place} * {col.size} + {col.index}"
            )
        nowhere = " * ".join(col.size for col in cols)
        or_nan = f" || {element} != {element}" if dtype.is_floating_point else ""
        accumulator = Accumulator(name, "long", nowhere, "min", "", f"{name} = std::min({name}, {{other}});")
        find = (
            f"const long place = {element} == {extreme}{or_nan} ? {place} : {nowhere};",
            f"{name} = place < {name} ? place : {name};",
        )
        return ColumnLoop("Where it first stands.", (accumulator,), ((*lines, *find),))

    def extreme_name(self, position: int) -> str:
        """The accumulator that holds the extreme value whose place an ARG reduction wants."""
        body = self.printer.plan.body
        wanted = body[position]
        assert isinstance(wanted, Reduce)
        op = ReduceOp.MAX if wanted.op is ReduceOp.ARGMAX else ReduceOp.MIN
        for other, name in self.accumulator_names.items():
            value = body[other]
            same_pass = self.levels[other] == self.levels[position]
            if isinstance(value, Reduce) and (value.op, value.arg) == (op, wanted.arg) and same_pass:
                return name
        return f"{self.accumulator_names[position]}_value"

    def _accumulators(self, position: int, reductions: tuple[int, ...]) -> tuple[Accumulator, ...]:
        value = self.printer.plan.body[position]
        assert isinstance(value, Reduce)
        dtype = self.printer.plan.body[value.arg].dtype
        if not is_position(value.op):
            return accumulators(value, self.accumulator_names[position], dtype)
        name = self.extreme_name(position)
        if name in (self.accumulator_names[p] for p in reductions):
            return ()
        return accumulators(value, name, dtype)

    # ---- lines of a loop body ----

    def _lines(self, roots: list[int], stores: tuple[int, ...], known: Known) -> tuple[list[str], Known]:
        """Declarations, in body order, of the named values that the roots need inside the loop."""
        printer = self.printer
        needed: set[int] = set()
        pending = list(roots)
        while pending:
            position = pending.pop()
            if position in needed or position in self.levels:
                continue
            needed.add(position)
            if position not in known:
                pending += arguments(printer.plan.body[position])
        lines: list[str] = []
        names = dict(printer.names.values)
        local: dict[int, Text] = dict(known)
        for position in sorted(needed):
            value = printer.plan.body[position]
            assert not isinstance(value, Store)
            if position in known:
                if position in names and self._uses(position, needed, stores) > 1:
                    lines.append(f"const {cpp_type(value.dtype)} {names[position]} = {known[position].text};")
                    local[position] = Text(names[position])
            elif position in names:
                lines.append(printer.declaration(position, local))
            elif isinstance(value, Load) and self._is_overwritten(position, stores):
                name = f"{printer.names.pointers[value.buffer]}_value"
                text = printer.expression(position, local).text
                lines.append(f"const {cpp_type(value.dtype)} {name} = {text};")
                local[position] = Text(name)
        return lines, local

    def _uses(self, position: int, needed: set[int], stores: tuple[int, ...]) -> int:
        body = self.printer.plan.body
        return sum(arguments(body[user]).count(position) for user in (*needed, *stores))

    def _is_overwritten(self, position: int, stores: tuple[int, ...]) -> bool:
        """Whether a load that is written in place would come after a store that may go to the same memory."""
        body = self.printer.plan.body
        load = body[position]
        assert isinstance(load, Load)
        for number, store in enumerate(stores):
            if number == 0:
                continue
            if position not in inline_closure(store, self.printer, ()):
                continue
            for earlier in stores[:number]:
                target = body[earlier]
                assert isinstance(target, Store)
                pointer = self.printer.pointers[target.buffer]
                if load.buffer == target.buffer or load.buffer in pointer.may_alias:
                    return True
        return False

    # ---- stages ----

    def _place(self, stage: Stage) -> None:
        printer = self.printer
        if stage.store is not None:
            self.staged[stage.position] = Text(printer.element(stage.store))
            return
        value = printer.plan.body[stage.position]
        assert not isinstance(value, Store)
        cols = [loop_of(axis, printer) for axis in printer.plan.cols]
        word = printer.names.values.get(stage.position, "kept")
        place = cols[0].index
        for col in cols[1:]:
            place = (
                f"({place}) * {col.size} + {col.index}"
                if "+" in place
                else f"{place} * {col.size} + {col.index}"
            )
        size = " * ".join(col.size for col in cols)
        self.scratch[stage.position] = Scratch(f"{word}_row", cpp_type(value.dtype), size)
        self.staged[stage.position] = Text(f"{word}_row[{place}]")

    def _known_in(self, one_pass: Pass) -> dict[int, Text]:
        staged = {position: self.staged[position] for position in one_pass.from_stage}
        return {**self.known, **staged}

    def _name_accumulators(self) -> dict[int, str]:
        names: dict[int, str] = {}
        taken = set(self.printer.names.values.values()) | set(self.printer.names.pointers.values())
        for position, value in enumerate(self.printer.plan.body):
            if not isinstance(value, Reduce):
                continue
            word = self.printer.names.values.get(position)
            if word is None:
                word = f"row_{value.op.value}"
                while word in taken:
                    word += "_value"
            taken.add(word)
            names[position] = word
        return names
