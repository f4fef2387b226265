"""Expressions: a body value becomes text in some dialect, with the parentheses it needs and no others."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping

from longhand.emit.names.unit_names import KernelNames
from longhand.lower.ir import Pointwise, Value


class Precedence(enum.IntEnum):
    """How tightly a piece of text binds; the order that Python and C++ agree on for the operators we print."""

    CONDITIONAL = 0
    OR = 1
    AND = 2
    COMPARE = 3
    BIT_OR = 4
    BIT_XOR = 5
    BIT_AND = 6
    SHIFT = 7
    SUM = 8
    PRODUCT = 9
    UNARY = 10
    ATOM = 11


@dataclasses.dataclass(frozen=True)
class Text:
    """A printed expression and how tightly its outermost operator binds."""

    text: str
    precedence: Precedence = Precedence.ATOM

    def within(self, outer: Precedence) -> str:
        """The text as an operand of something that binds like `outer`."""
        return self.text if self.precedence >= outer else f"({self.text})"


@dataclasses.dataclass(frozen=True)
class Operator:
    """How a dialect writes one operation.

    Attributes:
        template: ``{0} + {1}``; the arguments are numbered.
        precedence: Of the whole.
        operands: What each argument must bind like to stand there without parentheses. Shorter than the arguments:
            the last entry counts for the rest.
    """

    template: str
    precedence: Precedence = Precedence.ATOM
    operands: tuple[Precedence, ...] = (Precedence.CONDITIONAL,)

    def apply(self, arguments: list[Text]) -> Text:
        """The operation on printed arguments."""
        last = len(self.operands) - 1
        printed = [argument.within(self.operands[min(i, last)]) for i, argument in enumerate(arguments)]
        return Text(self.template.format(*printed), self.precedence)


class Same(Operator):
    """An operation that changes nothing and is not written: a conversion between equal types, the floor of an int."""

    def apply(self, arguments: list[Text]) -> Text:
        """The argument, however loosely it binds."""
        return arguments[0]


SAME = Same("{0}")


def infix(symbol: str, precedence: Precedence) -> Operator:
    """A left-associative binary operator."""
    return Operator(f"{{0}} {symbol} {{1}}", precedence, (precedence, Precedence(precedence + 1)))


def call(function: str, n_arguments: int = 1) -> Operator:
    """A function call."""
    return Operator(f"{function}({', '.join(f'{{{i}}}' for i in range(n_arguments))})")


def render(
    position: int,
    body: tuple[Value, ...],
    names: KernelNames,
    operator_of: Callable[[Pointwise], Operator],
    leaf: Callable[[int], Text],
    known: Mapping[int, Text] | None = None,
    top: bool = True,
) -> Text:
    """The text of a value: its name where it has one, else its operation with its arguments written inside.

    Args:
        position: Which value.
        body: The kernel's body.
        names: Which values have lines of their own. The value asked for is expanded even so (`top`): this prints the
            right-hand side of its line.
        operator_of: The dialect's table.
        leaf: Prints what is no pointwise operation: constants, scalars, loads that are written in place, positions.
        known: Texts that stand for values here (an accumulator, a staged value).
    """
    if known is not None and position in known:
        return known[position]
    if not top and position in names.values:
        return Text(names.values[position])
    value = body[position]
    if not isinstance(value, Pointwise):
        return leaf(position)
    printed = [render(arg, body, names, operator_of, leaf, known, top=False) for arg in value.args]
    return operator_of(value).apply(printed)
