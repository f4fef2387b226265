"""Loops and the lines inside them: what every style shares."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

from longhand.emit.cpp.body import BodyPrinter, Known, inline_closure
from longhand.emit.cpp.reductions import ReductionVariable
from longhand.emit.text.expression import Precedence, Text
from longhand.lower.ir import Load, Reduce, Store, arguments
from longhand.schedule.names.words import element_names, first_free, further_names
from longhand.schedule.plan import OnlineSoftmax, Pass, PlanAxis


@dataclasses.dataclass(frozen=True)
class CppLoop:
    """``for (long index = 0; index < size; ++index)``"""

    index: str
    size: str
    start: str = "0"


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
    accumulators: tuple[ReductionVariable, ...]
    lines: tuple[tuple[str, ...], ...]
    after: tuple[str, ...] = ()

    @property
    def clauses(self) -> str:
        """``reduction(+ : sum, sum_of_squares) reduction(max : row_max)``"""
        by_operator: dict[str, list[str]] = {}
        for accumulator in self.accumulators:
            by_operator.setdefault(accumulator.clause, []).append(accumulator.name)
        return " ".join(f"reduction({op} : {', '.join(names)})" for op, names in by_operator.items())


def loop_of(axis: PlanAxis, printer: BodyPrinter) -> CppLoop:
    """The loop over one axis."""
    words = printer.names.axes[axis.name]
    return CppLoop(words.index, words.size if axis.end is None else printer.names.scalars[axis.end])


def flattened(loops: tuple[CppLoop, ...]) -> Text:
    """The row-major position in nested loops: ``batch * n_heads + head``; 0 for none."""
    if not loops:
        return Text("0")
    text = Text(loops[0].index)
    for loop in loops[1:]:
        text = Text(f"{text.within(Precedence.PRODUCT)} * {loop.size} + {loop.index}", Precedence.SUM)
    return text


def product_of_sizes(loops: tuple[CppLoop, ...]) -> Text:
    """``n_rows * n_cols``; 1 for none."""
    sizes = [loop.size for loop in loops]
    return Text(" * ".join(sizes) or "1", Precedence.PRODUCT if len(sizes) > 1 else Precedence.ATOM)


def levels(passes: tuple[Pass, ...], printer: BodyPrinter) -> dict[int, int]:
    """For each outer value: the pass after which it is known, -1 where it needs none."""
    of_reduce: dict[int, int] = {}
    for number, one_pass in enumerate(passes):
        for reduction in one_pass.reductions:
            members = (reduction.max, reduction.sum) if isinstance(reduction, OnlineSoftmax) else (reduction,)
            of_reduce.update(dict.fromkeys(members, number))
    known_after: dict[int, int] = {}
    for position, value in enumerate(printer.plan.body):
        if printer.domains[position] & printer.loop_axes:
            continue
        if isinstance(value, Reduce):
            known_after[position] = of_reduce[position]
        else:
            known_after[position] = max((known_after[argument] for argument in arguments(value)), default=-1)
    return known_after


def accumulator_names(printer: BodyPrinter) -> dict[int, str]:
    """The variable of each Reduce of the body."""
    names: dict[int, str] = {}
    taken = set(printer.names.values.values()) | set(printer.names.pointers.values())
    for position, value in enumerate(printer.plan.body):
        if isinstance(value, Reduce):
            word = printer.names.values.get(position)
            if word is None:
                word = f"row_{value.op.value}"
                word = first_free(itertools.chain([word], further_names(word)), taken)
            taken.add(word)
            names[position] = word
    return names


def is_used(position: int, printer: BodyPrinter) -> bool:
    """Whether a value is an argument of another."""
    return any(position in arguments(value) for value in printer.plan.body)


def needed_values(roots: list[int], stop: frozenset[int], printer: BodyPrinter) -> list[int]:
    """What the roots are computed from, in body order; values in `stop` are there already."""
    needed: set[int] = set()
    pending = list(roots)
    while pending:
        position = pending.pop()
        if position in needed or position in stop:
            continue
        needed.add(position)
        pending += arguments(printer.plan.body[position])
    return sorted(needed)


@dataclasses.dataclass(frozen=True)
class LoopStatement:
    """What stands after the declarations of a loop, in order.

    Attributes:
        uses: The values that it mentions; of a store itself.
        buffer: What it writes into; empty for a variable.
    """

    uses: tuple[int, ...]
    buffer: str = ""


def stores_as_statements(stores: tuple[int, ...], printer: BodyPrinter) -> tuple[LoopStatement, ...]:
    """Of each store one."""
    return tuple(LoopStatement((store,), _target(printer.plan.body[store])) for store in stores)


def element_lines(
    roots: list[int],
    statements: tuple[LoopStatement, ...],
    stop: frozenset[int],
    known: Known,
    printer: BodyPrinter,
    reload: bool = True,
) -> tuple[list[str], Known]:
    """The declarations that the roots need inside a loop over elements.

    Args:
        roots: Values that the loop uses, as often as it mentions them.
        statements: What follows the declarations.
        stop: Values that are variables already.
        known: Texts of values that are not computed here: accumulators and staged values.
        printer: The kernel's.
        reload: Whether what is staged gets a variable where it is used twice.

    Returns:
        The lines, and `known` with what now has a name.
    """
    needed = needed_values(roots, stop | frozenset(known), printer)
    lines: list[str] = []
    local: dict[int, Text] = dict(known)
    names = printer.names.values
    uses = Counter(roots)
    for user in needed:
        uses.update(arguments(printer.plan.body[user]))
    waiting = _waiting_in(printer)
    staged = [p for p in sorted(known) if reload and p in names and p not in stop and uses[p] > 1]
    staged += [
        p
        for p in sorted(known)
        if p in waiting and p not in stop and p not in staged
        if _is_overwritten(p, waiting[p], statements, printer)
    ]
    for position in sorted([*needed, *staged]):
        value = printer.plan.body[position]
        assert not isinstance(value, Store)
        if position in known:
            name = names.get(position) or _unused(printer.names.pointers[waiting[position]], printer)
            lines.append(f"const {printer.type_of(value.dtype)} {name} = {known[position].text};")
            local[position] = Text(name)
        elif isinstance(value, Load) and _reads_in_place(position, uses[position], statements, printer):
            local[position] = printer.expression(position, local, top=True)
        elif position in names:
            lines.append(printer.declaration(position, local))
        elif isinstance(value, Load) and _is_overwritten(position, value.buffer, statements, printer):
            name = _unused(printer.names.pointers[value.buffer], printer)
            text = printer.expression(position, local).text
            lines.append(f"const {printer.type_of(value.dtype)} {name} = {text};")
            local[position] = Text(name)
    return lines, local


def _reads_in_place(
    position: int, n_uses: int, statements: tuple[LoopStatement, ...], printer: BodyPrinter
) -> bool:
    """Whether a load that has a name is as readable without, in a loop that uses it once."""
    load = printer.plan.body[position]
    assert isinstance(load, Load)
    if n_uses > 1 or load.mask is not None or position not in printer.names.values:
        return False
    return not _is_overwritten(position, load.buffer, statements, printer)


def _is_overwritten(
    position: int, buffer: str, statements: tuple[LoopStatement, ...], printer: BodyPrinter
) -> bool:
    """Whether a value that lies in `buffer`, read in place, would come after a write that may go to that memory."""
    written = False
    for statement in statements:
        if written and any(_mentions(use, position, printer) for use in statement.uses):
            return True
        written |= bool(statement.buffer) and _may_be_one(statement.buffer, buffer, printer)
    return False


def _mentions(use: int, position: int, printer: BodyPrinter) -> bool:
    """Whether the text of a value that a statement uses holds that of another; a variable's is its name."""
    if use != position and use in printer.names.values:
        return False
    return position in inline_closure(use, printer, position)


def _may_be_one(one: str, other: str, printer: BodyPrinter) -> bool:
    return (
        one == other or other in printer.pointers[one].may_alias or one in printer.pointers[other].may_alias
    )


def _waiting_in(printer: BodyPrinter) -> dict[int, str]:
    """The buffers of the output rows that staged values wait in."""
    return {
        stage.position: _target(printer.plan.body[stage.store])
        for one_pass in printer.plan.passes
        for stage in one_pass.stages
        if stage.store is not None
    }


def _target(value: object) -> str:
    assert isinstance(value, Store)
    return value.buffer


def _unused(word: str, printer: BodyPrinter) -> str:
    """A word for one element of what has `word`."""
    names = printer.names
    taken = {*names.values.values(), *names.pointers.values(), *names.scalars.values()}
    return first_free(element_names(word), taken)


def paragraphs(lines: list[str], end: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Declarations and what is done with them: apart where there are several."""
    blocks = (tuple(lines), end) if len(lines) > 2 else ((*lines, *end),)
    return tuple(block for block in blocks if block)
