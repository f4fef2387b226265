"""The statements of one Triton function: loads, values, reductions and stores over the lanes that a program holds."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

import torch

from longhand.emit.text.expression import (
    Precedence,
    Text,
    compose,
    joined,
    number_operand,
    render,
    word,
)
from longhand.emit.triton.mask_words import mask_words, reads_well
from longhand.emit.triton.operators import (
    OF_TENSORS,
    ONE_WAY,
    OperatorTable,
    guarded_squares,
    lane_index,
    lane_reduction,
    reduce_identity,
)
from longhand.emit.triton.scope import FileScope, language_dtype, number, typed_numbers
from longhand.emit.triton.space import AddressText, Line, Space, StatementKind, address_text
from longhand.errors import ScheduleError
from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    Reduce,
    Scalar,
    Store,
    Value,
    arguments,
    domains,
)
from longhand.schedule.named_plan import KernelNames, is_of_places, pointer_word
from longhand.schedule.plan import Access, KernelPlan, is_narrow_position, scalar_at

_WIDEST = 106  # of a statement in a function


def _writes_narrow(plan: KernelPlan) -> bool:
    """Whether every float that the kernel writes to memory has 16 bits."""
    written = {p.dtype for p in plan.pointers if p.access is not Access.READ and p.dtype.is_floating_point}
    return written <= {torch.float16, torch.bfloat16}


class Block:
    """Prints values of a body inside one function.

    Args:
        plan: The kernel.
        names: Its words.
        scope: Where further names come from.
        space: How the function holds the space.
        known: Values that stand under a name already (reduced by an earlier loop or kernel).
    """

    def __init__(
        self,
        plan: KernelPlan,
        names: KernelNames,
        scope: FileScope,
        space: Space,
        known: Mapping[int, Text] | None = None,
    ) -> None:
        self.plan = plan
        self.body = plan.body
        self.scope = scope
        self.space = space
        self.domains = domains(plan.body)
        self.known: dict[int, Text] = dict(known or {})
        kept = (Load, Pointwise, Reduce)
        words = {p: name for p, name in names.values.items() if isinstance(plan.body[p], kept)}
        self.names = dataclasses.replace(names, values=words)
        self.operators = OperatorTable(plan.body, _writes_narrow(plan), scope.constants)
        self.addresses: dict[AddressText, str] = {}  # shared address -> variable
        self.bases: dict[Text, str] = {}  # shared part of the rows -> variable
        self.asked: Counter[AddressText] = Counter()  # how often each address was printed
        self.asked_by: dict[Text, str] = {}  # base -> the pointer that used it first
        self._masks: dict[int, str] = {}  # load or store -> the variable that holds its mask
        self._named_masks: dict[Text, str] = {}  # a mask -> the variable that holds it
        self._typed = typed_numbers(plan.body, scope.constants, ONE_WAY, OF_TENSORS)
        self._copied = plan.numerics.copied
        self._squares = guarded_squares(plan, words)
        self._spared = {one for factor in self._squares.values() for one in plan.spared.get(factor, ())}

    # Expressions

    def expression(self, position: int, top: bool = True) -> Text:
        """A value as text; named values below it by their names."""
        return render(position, self.body, self.names, self.operators, self._leaf, self.known, top)

    def _leaf(self, position: int) -> Text:
        value = self.body[position]
        match value:
            case Load():
                return self.load(position)
            case Constant(value=constant, dtype=dtype):
                named = self.scope.constants.get(position)
                literal = Text(named.name) if named else _literal(constant, dtype)
                return self._number(position, literal, dtype)
            case Scalar(dtype=dtype):
                scalar = word(self.names.scalars[scalar_at(self.plan, position)])
                return self._number(position, scalar, dtype)
            case IndexExpression():
                return self._position(position)
            case AxisSize(axes=axes):
                sizes = [word(self.names.axes[axis].size) for axis in axes]
                if len(sizes) > 1 and self.plan.has_wide_count(axes):
                    sizes[0] = compose("tl.cast({}, tl.int64)", sizes[0])
                binds = Precedence.PRODUCT if len(sizes) > 1 else Precedence.ATOM
                return self._number(position, joined(sizes, " * ", binds), value.dtype)
            case Reduce():
                return self.reduction(position)
        raise ScheduleError(f"{type(value).__name__} stands where a value is needed.")

    def _number(self, position: int, literal: Text, dtype: torch.dtype) -> Text:
        """As a tensor of its dtype where the operation around it would take it for a smaller one."""
        if position in self._typed:
            return compose("tl.full((), {}, {})", literal, language_dtype(dtype))
        return literal

    def _position(self, position: int) -> Text:
        address = self.address(position)
        plain = address.whole if address.whole.text else Text("0")
        is_wide = self.plan.has_wide_index(axis for axis, _ in self.plan.addresses[position].axes)
        if plain.text.isdigit() or is_wide or is_narrow_position(self.plan, position):
            return plain
        return compose("{}.to(tl.int64)", plain.operand(Precedence.ATOM))

    # Memory

    def address(self, position: int) -> AddressText:
        """The address of a Load or Store (or the value of an IndexExpression), without the pointer."""
        rows = next((flat for flat in self.space.flats if flat.axes == self.space.rows.axes), None)
        return address_text(
            self.plan.addresses[position],
            rows,
            self.space.flats,
            self.names,
            lambda at: self.expression(at, top=False),
        )

    def pointer(self, position: int) -> Text:
        """``x_ptr + row * n_cols + col``, by way of a shared address or a shared base where there is one."""
        value = self.body[position]
        assert isinstance(value, Load | Store)
        pointer = word(pointer_word(self.names.pointers[value.buffer]))
        address = self.address(position)
        if not self.plan.addresses[position].values:
            self.asked[address] += 1
            self.asked_by.setdefault(address.base, self.names.pointers[value.buffer])
        if address in self.addresses:
            return compose("{} + {}", pointer, word(self.addresses[address]))
        if address.base in self.bases:
            address = dataclasses.replace(address, base=word(self.bases[address.base]))
        return address.added_to(pointer)

    def mask(self, position: int) -> Text | None:
        """The mask of a Load or Store: the sides it varies over, and its own condition."""
        value = self.body[position]
        assert isinstance(value, Load | Store)
        if position in self._masks:
            return word(self._masks[position])
        bounds = self.bounds(self.varying(position))
        if value.mask is None:
            return bounds
        condition = self.expression(value.mask, top=False)
        mask = compose("{} & {}", bounds, condition.operand(Precedence.BIT_AND)) if bounds else condition
        return word(self._named_masks[mask]) if mask in self._named_masks else mask

    def varying(self, position: int) -> set[str]:
        """The axes along which an address varies."""
        address = self.plan.addresses[position]
        return {axis for axis, _ in address.axes}.union(*(self.domains[at] for at, _ in address.values))

    def bounds(self, domain: Iterable[str]) -> Text | None:
        """The mask that keeps a value of this domain in range."""
        axes = set(domain)
        rows = self.space.rows.mask if axes & set(self.space.rows.axes) else None
        cols = self.space.cols.mask if axes & set(self.space.cols.axes) else None
        mask = self.space.both if rows and cols else rows or cols
        return word(mask) if mask else None

    def load(self, position: int) -> Text:
        """``tl.load(...)`` with the conversion to the dtype of the body."""
        value = self.body[position]
        assert isinstance(value, Load)
        arguments = [self.pointer(position)]
        mask = self.mask(position)
        if mask is not None:
            varying = self.varying(position)
            if value.mask is not None and not self.space.shape(varying):
                # Triton wants no block for the mask of one element.
                shape = self.space.shape(self.domains[value.mask])
                arguments[0] = (
                    compose("tl.broadcast_to({}, {})", arguments[0], shape) if shape else arguments[0]
                )
            arguments.append(compose("mask={}", mask))
            other = value.other if value.mask is not None else self.plan.padding.get(position)
            if other is not None:
                arguments.append(Text(f"other={number(other, value.dtype)}"))
        text = compose("tl.load({})", joined(arguments, ", "))
        pointer = next(p for p in self.plan.pointers if p.name == value.buffer)
        if pointer.dtype == value.dtype or position in self._copied:
            return text
        return compose("{}.to({})", text, language_dtype(value.dtype))

    def store(self, position: int) -> Text:
        """``tl.store(...)`` or ``tl.atomic_add(...)``; Triton rounds to the pointer's dtype."""
        value = self.body[position]
        assert isinstance(value, Store)
        arguments = [self.pointer(position), self.expression(value.value, top=False)]
        mask = self.mask(position)
        if mask is not None:
            arguments.append(compose("mask={}", mask))
        if value.adds:  # in whatever order: nobody looks before the kernel is over
            return compose('tl.atomic_add({}, sem="relaxed")', joined(arguments, ", "))
        return compose("tl.store({})", joined(arguments, ", "))

    # Reductions

    def guarded(self, position: int) -> Text:
        """The argument of a Reduce, with the identity in lanes past the end where the plan asks for that."""
        reduce = self.body[position]
        assert isinstance(reduce, Reduce)
        argument = self.expression(reduce.arg, top=False)
        if position not in self.plan.guards or position in self._squares or position in self._spared:
            return argument
        mask = self.bounds(reduce.axes)
        if mask is None:
            return argument
        return compose("tl.where({}, {}, {})", mask, argument, reduce_identity(self.body, position))

    def reduction(self, position: int) -> Text:
        """A Reduce over the lanes of one side, all at once."""
        return self.reduce_lanes(
            position, self.guarded(position), lane_index(self.plan, self.space, position)
        )

    def reduce_lanes(
        self, position: int, argument: Text, index: Text | None = None, is_pair: bool = False
    ) -> Text:
        """The reduction of a block along its reduced side.

        Args:
            argument: The block.
            index: For ARG*: the block of positions; None for their positions in the block, and no NaN among them.
            is_pair: With an index: the value stays beside its position.
        """
        return lane_reduction(self.plan, self.space, position, argument, index, is_pair)

    # Statements

    def lines(self, positions: Iterable[int]) -> list[Line]:
        """The statements that evaluate these positions: loads of whole blocks first (all loads where nothing is
        reduced: no row waits in registers), then each load before its first use, stores last.

        Where nothing is reduced, what places alone decide comes next, and the loads that it is the condition of.
        """
        listed = [p for p in positions if p not in self.known]
        stores = [p for p in listed if isinstance(self.body[p], Store)]
        named = [p for p in listed if p in self.names.values]
        whole = self.space.sides(frozenset(axis.name for axis in self.plan.axes))
        reduces = any(isinstance(value, Reduce) for value in self.body)
        first = [
            p
            for p in named
            if is_plain_load(self.body, p) and (not reduces or self.space.sides(self.domains[p]) == whole)
        ]
        lines = [self._line(p) for p in first]
        done = set(first)
        placed = [] if reduces else [p for p in named if p not in done and is_of_places(p, self.body)]
        for position in (
            *placed,
            *(p for p in named if placed and p not in done and may_come_first(p, self.body)),
        ):
            done.add(position)
            lines += self._mask_lines(position)
            lines.append(self._line(position))
        for position in named:
            if is_plain_load(self.body, position) or position in done:
                continue
            for load in loads_below(position, named, self.body, self.known):
                if load not in done:
                    done.add(load)
                    lines.append(self._line(load))
            done.add(position)
            lines += self._mask_lines(position)
            lines.append(self._line(position))
        for position in stores:
            for load in loads_below(position, named, self.body, self.known):
                if load not in done:
                    done.add(load)
                    lines.append(self._line(load))
        # What only a later loop, or the end of this one, reads.
        lines += [self._line(p) for p in named if is_plain_load(self.body, p) and p not in done]
        for position in stores:
            lines += [*self._mask_lines(position), Line(StatementKind.STORE, self.store(position))]
        return lines

    def _mask_lines(self, position: int) -> list[Line]:
        """A line for the mask of a load or store that is more than a name."""
        value = self.body[position]
        if not isinstance(value, Load | Store) or value.mask is None or position in self._masks:
            return []
        mask = self.mask(position)
        if mask is None or mask.text.isidentifier():
            return []
        is_bounded = self.bounds(self.varying(position)) is not None
        if reads_well(self, value.mask, is_bounded) and self._fits(position):
            return []
        self._masks[position] = self.scope.name(("mask", position), *mask_words(self, position, value))
        self._named_masks[mask] = self._masks[position]
        kind = StatementKind.LOAD if isinstance(value, Load) else StatementKind.COMPUTE
        return [Line(kind, compose("{} = {}", self._masks[position], mask), self._masks[position])]

    def _fits(self, position: int) -> bool:
        """Whether the statement of a load or store fits a line with its mask written out, or does not even without."""
        asked, asked_by = self.asked.copy(), dict(self.asked_by)
        text = self.store(position) if isinstance(self.body[position], Store) else self._line(position).text
        self.asked, self.asked_by = asked, asked_by
        mask = self.mask(position)
        return not _WIDEST < len(text.text) <= _WIDEST + len(mask.text if mask else "")

    def _line(self, position: int) -> Line:
        """The statement that gives a value its name."""
        text = self.expression(position)
        for square, factor in self._squares.items():
            if factor == position:
                reduce = self.body[square]
                assert isinstance(reduce, Reduce)
                bounds = self.bounds(reduce.axes)
                assert bounds is not None  # what is guarded has lanes past the end
                text = compose("tl.where({}, {}, {})", bounds, text, number(0, reduce.dtype))
        kind = StatementKind.LOAD if isinstance(self.body[position], Load) else StatementKind.COMPUTE
        target = self.names.values[position]
        return Line(kind, compose("{} = {}", target, text), target)


def _literal(constant: float, dtype: torch.dtype) -> Text:
    """A number; Triton makes 0.0 of the literal -0.0."""
    if dtype.is_floating_point and constant == 0 and math.copysign(1.0, constant.real) < 0:
        zero = f"-1.0 * tl.full((), 0.0, {language_dtype(dtype)})"
        return Text(zero, Precedence.PRODUCT)
    return number_operand(number(constant, dtype))


def is_plain_load(body: Sequence[Value], position: int) -> bool:
    """Whether a value is read without a condition, from a place that no value decides."""
    value = body[position]
    return isinstance(value, Load) and value.mask is None and not value.index.values


def may_come_first(position: int, body: Sequence[Value]) -> bool:
    """Whether a value is read under a condition of places alone, so that it may come before what is computed."""
    value = body[position]
    if not isinstance(value, Load) or value.mask is None or value.index.values:
        return False
    return is_of_places(value.mask, body)


def loads_below(
    position: int, named: Sequence[int], body: Sequence[Value], known: Container[int]
) -> list[int]:
    """Named plain loads that the statement of `position` reads directly; what is known already reads none."""
    loads: list[int] = []

    def visit(at: int) -> None:
        for arg in arguments(body[at]):
            if arg in known:
                continue
            if arg in named:
                if is_plain_load(body, arg) and arg not in loads:
                    loads.append(arg)
                continue
            visit(arg)

    visit(position)
    return sorted(loads)
