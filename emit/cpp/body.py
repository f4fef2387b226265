"""The values of a kernel's body as C++ expressions, declarations and stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch

from longhand.emit.cpp.addresses import RowPointer, Term, sum_of_terms, term, transposed_tiles
from longhand.emit.cpp.operators import operator_table, prints_bare
from longhand.emit.cpp.types import cpp_type, is_struct, literal
from longhand.emit.text.expression import Precedence, Text, render
from longhand.emit.text.kernel_head import NamedConstant, named_constants
from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Scalar,
    Store,
    Value,
    arguments,
)
from longhand.schedule.named_plan import KernelNames, plan_domains
from longhand.schedule.plan import Address, KernelPlan, Pointer, scalar_at

Known = Mapping[int, Text]
AT = "at"  # the variable of an index that several statements use


class BodyPrinter:
    """Prints values of one kernel; knows names, addresses and row pointers, not loops.

    Attributes:
        plan: The kernel.
        names: Its words; values that must have a line of their own to be right or fast are named here too.
        domains: The axes that each value varies over.
        inverted_sums: Reduces of which the inverse is at hand, and that are multiplied by instead of divided by.
        transposed: By position of a load: the array that holds what it reads, transposed.
        row_pointers: Base pointers that the row loop declares.
        needs: Names in what was printed that are none of the kernel's own.
        followed: The names of the base pointers that were printed since somebody asked.
    """

    def __init__(self, plan: KernelPlan, names: KernelNames) -> None:
        self.plan = plan
        self.domains = plan_domains(plan)
        self.row_axes = frozenset(axis.name for axis in plan.rows)
        self.col_axes = frozenset(axis.name for axis in plan.cols)
        # Base pointers move along these; what is left of an address is walked by the innermost loops.
        batch = [axis.name for axis in plan.cols[:-1]] if plan.schedule.is_down_columns else []
        self.base_axes = self.row_axes | frozenset(batch)
        self.loop_axes = self.row_axes if plan.schedule.is_down_columns else self.col_axes
        self.pointers: dict[str, Pointer] = {pointer.name: pointer for pointer in plan.pointers}
        self.names = names
        self.inverted_sums = plan.numerics.inverted_sums
        self._operators = operator_table(plan.body, self.inverted_sums)
        tunables = frozenset({tunable.name for tunable in plan.tunables} | {"GRAIN"})
        self.transposed = transposed_tiles(plan, self.names)
        self._constants = named_constants(plan.body, tunables, names.constants)
        self._wide_numbers = _wide_numbers(plan.body)
        self.needs: set[str] = set()
        self.followed: set[str] = set()
        self.row_pointers: tuple[RowPointer, ...] = ()
        self.row_pointers = self._choose_row_pointers()
        self.needs.clear()
        self.asked: Counter[str] = Counter()  # how often each index behind a row pointer was printed
        self.multiplied: set[str] = set()  # those with a product in them
        self.shared_index = ""  # the one that has a line of its own

    @property
    def constants(self) -> tuple[NamedConstant, ...]:
        """Numbers that stand at the top of the file."""
        return tuple(dict.fromkeys(self._constants.values()))

    # ---- values ----

    def expression(self, position: int, known: Known | None = None, top: bool = False) -> Text:
        """A value where it is used (`top`: as the right-hand side of its own line)."""
        text = render(
            position,
            self.plan.body,
            self.names,
            self._operators,
            lambda leaf: self._leaf(leaf, known or {}),
            known,
            top,
        )
        self.needs |= text.needs
        return text

    def type_of(self, dtype: torch.dtype) -> str:
        """The C++ type of a variable, which the file needs."""
        self.needs.add(cpp_type(dtype))
        return cpp_type(dtype)

    def declaration(self, position: int, known: Known | None = None) -> str:
        """``const float mean = sum / n_cols;``"""
        value = self.plan.body[position]
        assert not isinstance(value, Store)
        text = self.expression(position, known, top=True).text
        return f"const {self.type_of(value.dtype)} {self.names.values[position]} = {text};"

    def store(self, position: int, known: Known | None = None) -> str:
        """``out_row[col] = value;``; a 16-bit element rounds what it is assigned."""
        value = self.plan.body[position]
        assert isinstance(value, Store) and not value.adds  # which lowering writes for CUDA alone
        text = self.expression(value.value, known).text
        statement = f"{self.element(position, known)} = {text};"
        if value.mask is None:
            return statement
        return f"if ({self.expression(value.mask, known).text}) {{ {statement} }}"

    def element(self, position: int, known: Known | None = None) -> str:
        """``x_row[col]``: the element that a Load or Store of the body accesses."""
        value = self.plan.body[position]
        assert isinstance(value, Load | Store)
        address = self.plan.addresses[position]
        if position in self.transposed:
            return self.transposed[position].element
        terms = self._terms(address, known)
        for pointer in self.row_pointers:
            is_declared = not pointer.values or any(axis in self.col_axes for axis, _ in address.axes)
            if pointer.pointer == value.buffer and is_declared and set(pointer.terms) <= set(terms):
                rest = tuple(t for t in terms if t not in pointer.terms)
                index = sum_of_terms(rest).text
                self.asked[index] += 1
                if any((one.variable is not None) + len(one.factors) > 1 for one in rest):
                    self.multiplied.add(index)
                self.followed.add(pointer.name)
                return f"{pointer.name}[{AT if index == self.shared_index else index}]"
        return f"{self.names.pointers[value.buffer]}[{sum_of_terms(terms).text}]"

    def _leaf(self, position: int, known: Known) -> Text:
        value = self.plan.body[position]
        match value:
            case Load():
                element = self.element(position, known)
                if value.mask is None:
                    return Text(element)
                if is_struct(self.pointers[value.buffer].dtype):
                    element = f"static_cast<float>({element})"
                mask = self.expression(value.mask, known).within(Precedence.OR)
                other = literal(value.other, value.dtype)
                return Text(f"{mask} ? {element} : {other.text}", Precedence.CONDITIONAL, other.needs)
            case Constant() if position in self._constants:
                return Text(self._constants[position].name)
            case Constant():
                return literal(value.value, value.dtype, is_wide=position in self._wide_numbers)
            case Scalar():
                return Text(self.names.scalars[scalar_at(self.plan, position)])
            case IndexExpression():
                text = sum_of_terms(self._terms(self.plan.addresses[position], known))
                if cpp_type(value.dtype) == "int64_t":
                    return text
                return Text(f"static_cast<{self.type_of(value.dtype)}>({text.text})")
            case AxisSize():
                return self._axis_size(position, value)
        raise TypeError(f"{type(value).__name__} has no text of its own")

    def _axis_size(self, position: int, value: AxisSize) -> Text:
        words = [self.names.axes[axis].size for axis in value.axes]
        product = Text(" * ".join(words), Precedence.PRODUCT if len(words) > 1 else Precedence.ATOM)
        if value.dtype.is_floating_point and prints_bare(position, self.plan.body):
            return Text(product.within(Precedence.UNARY))
        if cpp_type(value.dtype) == "int64_t":
            return product
        return Text(f"static_cast<{self.type_of(value.dtype)}>({product.text})")

    # ---- addresses ----

    def _terms(self, address: Address, known: Known | None) -> tuple[Term, ...]:
        terms = [term(self.names.axes[axis].index, product, self.names) for axis, product in address.axes]
        by_value = [self._value_term(position, product, known) for position, product in address.values]
        constants = [term(None, product, self.names) for product in address.offset]
        is_base = [axis in self.base_axes for axis, _ in address.axes]
        base = [t for t, is_in in zip(terms, is_base, strict=True) if is_in]
        rest = [t for t, is_in in zip(terms, is_base, strict=True) if not is_in]
        # The largest steps first: they share factors with what follows.
        base.sort(key=lambda t: -len(t.factors))
        return (*base, *by_value, *rest, *constants)

    def _value_term(self, position: int, product: tuple, known: Known | None) -> Term:
        text = self.expression(position, known)
        return term(text.within(Precedence.UNARY if product else Precedence.SUM), product, self.names)

    def _choose_row_pointers(self) -> tuple[RowPointer, ...]:
        """One for each pointer that a loop reads at a place that moves with the rows; the first place decides."""
        chosen: dict[str, RowPointer] = {}
        taken = set(self.names.values.values()) | set(self.names.pointers.values())
        for position, address in self.plan.addresses.items():
            value = self.plan.body[position]
            if not isinstance(value, Load | Store) or value.buffer in chosen or position in self.transposed:
                continue
            along = [(axis, product) for axis, product in address.axes if axis not in self.base_axes]
            fixed = tuple((axis, product) for axis, product in address.axes if axis in self.base_axes)
            if not along or (
                self.plan.schedule.is_down_columns and not self.domains[position] & self.row_axes
            ):
                continue
            gathers = tuple((p, product) for p, product in address.values if self._is_outer(p))
            is_column = self.plan.schedule.is_tiled and along[-1][1] != ()
            name = f"{self.names.pointers[value.buffer]}_{'column' if is_column else 'row'}"
            if not (fixed or gathers) or name in taken:
                continue
            self.needs.clear()
            terms = self._terms(Address(fixed, gathers), None)
            chosen[value.buffer] = RowPointer(
                name, value.buffer, terms, tuple(p for p, _ in gathers), frozenset(self.needs)
            )
        return tuple(chosen[pointer.name] for pointer in self.plan.pointers if pointer.name in chosen)

    def _is_outer(self, position: int) -> bool:
        """Whether a value is known where the row pointers are declared, ahead of the loops over columns."""
        return not self.plan.schedule.is_down_columns and not self.domains[position] & self.col_axes

    def pointer_declarations(self) -> tuple[str, ...]:
        """``const float *x_row = x + row * n_cols;`` for the row pointers that were printed since this was asked."""
        followed, self.followed = self.followed, set()
        return tuple(self.pointer_declaration(p) for p in self.row_pointers if p.name in followed)

    def pointer_declaration(self, pointer: RowPointer) -> str:
        """``const float *x_row = x + row * n_cols;``"""
        full = self.pointers[pointer.pointer]
        self.needs |= pointer.needs
        const = "const " if full.access.value == "read" else ""
        base = self.names.pointers[pointer.pointer]
        return f"{const}{cpp_type(full.dtype)} *{pointer.name} = {base} + {sum_of_terms(pointer.terms).text};"


def inline_closure(position: int, printer: BodyPrinter, through: int) -> frozenset[int]:
    """The values written inside the expression of a value, itself included, down to named ones but for `through`."""
    closure: set[int] = set()
    pending = [position]
    while pending:
        current = pending.pop()
        if current in closure:
            continue
        closure.add(current)
        pending += [
            argument
            for argument in arguments(printer.plan.body[current])
            if argument not in printer.names.values or argument == through
        ]
    return frozenset(closure)


def _wide_numbers(body: tuple[Value, ...]) -> frozenset[int]:
    """Numbers of int64 of which one is chosen: bare, C++ would go on in int, and wrap in 32 bits."""
    chosen = [
        value.args[1:]
        for value in body
        if isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE and value.dtype is torch.int64
    ]
    return frozenset(one for one, other in chosen if {type(body[one]), type(body[other])} == {Constant})
