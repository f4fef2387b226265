"""Expressions: values, numbers and symbolic sizes become text, with the parentheses they need and no others.

A body's value in some dialect; numbers as a person writes them: ``12**-0.5`` for 0.28867513459481287; a size as
Python over words: ``2 * seq``, ``max(rows, cols)``.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sympy
import torch
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from longhand.emit.text.quoting import python_string
from longhand.errors import CaptureError
from longhand.lower.ir import Pointwise, Value
from longhand.schedule.named_plan import KernelNames


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
    """A printed expression.

    Attributes:
        text: The expression.
        precedence: How tightly its outermost operator binds.
        needs: Names in it that are none of the kernel's own: functions, and in C++ types and constants.
        names: The kernel's own names in it: values, indices, masks, parameters. C++, where every argument of a kernel
            is a parameter, asks for none.
    """

    text: str
    precedence: Precedence = Precedence.ATOM
    needs: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def within(self, outer: Precedence) -> str:
        """The text as an operand of something that binds like `outer`."""
        return self.text if self.precedence >= outer else f"({self.text})"

    def operand(self, outer: Precedence) -> Text:
        """Itself as such an operand."""
        return self if self.precedence >= outer else dataclasses.replace(self, text=f"({self.text})")


def word(name: str) -> Text:
    """One of the kernel's own names."""
    return Text(name, names=frozenset({name}))


def outside(name: str) -> Text:
    """A name that is none of the kernel's own: of a function."""
    return Text(name, needs=frozenset({name}))


def compose(template: str, *parts: Text | str, precedence: Precedence = Precedence.ATOM) -> Text:
    """``{} + {}`` with its parts put in; it names and needs what they do, and a part that is a str nothing."""
    return _united(template.format(*map(_plain, parts)), parts, precedence)


def joined(
    parts: Iterable[Text | str], separator: str = "", precedence: Precedence = Precedence.ATOM
) -> Text:
    """Parts in a row, likewise."""
    parts = list(parts)
    return _united(separator.join(map(_plain, parts)), parts, precedence)


def _plain(part: Text | str) -> str:
    return part.text if isinstance(part, Text) else part


def _united(text: str, parts: Iterable[Text | str], precedence: Precedence) -> Text:
    texts = [part for part in parts if isinstance(part, Text)]
    needs = frozenset[str]().union(*(part.needs for part in texts))
    return Text(text, precedence, needs, frozenset[str]().union(*(part.names for part in texts)))


@dataclasses.dataclass(frozen=True)
class Operator:
    """How a dialect writes one operation.

    Attributes:
        template: ``{0} + {1}``; the arguments are numbered.
        precedence: Of the whole.
        operands: What each argument must bind like to stand there without parentheses. Shorter than the arguments:
            the last entry counts for the rest.
        needs: Names in it that are none of the kernel's own.
    """

    template: str
    precedence: Precedence = Precedence.ATOM
    operands: tuple[Precedence, ...] = (Precedence.CONDITIONAL,)
    needs: frozenset[str] = frozenset()

    def apply(self, arguments: list[Text]) -> Text:
        """The operation on printed arguments."""
        last = len(self.operands) - 1
        printed = [argument.within(self.operands[min(i, last)]) for i, argument in enumerate(arguments)]
        needs = self.needs.union(*(argument.needs for argument in arguments))
        names = frozenset[str]().union(*(argument.names for argument in arguments))
        return Text(self.template.format(*printed), self.precedence, needs, names)


class Same(Operator):
    """An operation that changes nothing and is not written: a conversion between equal types, the floor of an int."""

    def apply(self, arguments: list[Text]) -> Text:
        """The argument, however loosely it binds."""
        return arguments[0]


SAME = Same("{0}")


def infix(symbol: str, precedence: Precedence) -> Operator:
    """A left-associative binary operator."""
    return Operator(f"{{0}} {symbol} {{1}}", precedence, (precedence, Precedence(precedence + 1)))


def call(function: str, n_arguments: int = 1, of: str = "") -> Operator:
    """A function call; of a template with its type in writing."""
    spelled = f"{function}<{of}>" if of else function
    needs = frozenset({function, of} if of else {function})
    return Operator(f"{spelled}({', '.join(f'{{{i}}}' for i in range(n_arguments))})", needs=needs)


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
        return word(names.values[position])
    value = body[position]
    if not isinstance(value, Pointwise):
        return leaf(position)
    printed = [render(arg, body, names, operator_of, leaf, known, top=False) for arg in value.args]
    return operator_of(value).apply(printed)


_MOST_DIGITS = 6  # significant ones that a person types
_LARGEST = 2**20
_ROUND = 1e6  # from here on nobody counts the zeros


def number(value: float) -> str:
    """A float as Python text, or a bool."""
    if isinstance(value, bool):
        return str(value)
    text = root_text(value) or _round_text(value) or repr(value)
    if text in ("inf", "-inf", "nan"):
        return f'float("{text}")'
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def _round_text(value: float) -> str | None:
    """``-1e9``, for a large number with no more than a digit or two; None for another."""
    text = f"{value:.1e}".replace(".0e", "e")
    return text if abs(value) >= _ROUND and math.isfinite(value) and float(text) == value else None


def machine_epsilon_text(value: float) -> str | None:
    """``torch.finfo(torch.float32).eps``, which norms add where nobody says what; None for another number.

    Those of narrower types are round numbers that people write, too.
    """
    kinds = (torch.float32, torch.float64)
    return next((f"torch.finfo({kind}).eps" for kind in kinds if torch.finfo(kind).eps == value), None)


def number_operand(text: str) -> Text:
    """The text of a number as a part of an expression."""
    if " / " in text or " * " in text or " ** " in text:
        return Text(text, Precedence.PRODUCT)
    return Text(text, Precedence.UNARY if text.startswith("-") or "**" in text else Precedence.ATOM)


def root_text(value: float) -> str | None:
    """The number as a root of a whole one, ``12**-0.5``; None where it is none, or short as it is."""
    if not _is_long(value):
        return None
    size = abs(value)
    sign = "-" if value < 0 else ""
    for power in (0.5, 0.25, 0.75):
        above, below = _whole(size ** (1 / power)), _whole(size ** (-1 / power))
        if above and above**power == size:
            return f"{sign}{above}**{power}"
        if below and below**-power == size:
            return f"{sign}{below}**-{power}"
        if below and 1 / below**power == size:
            return f"{sign}1 / {below}**{power}"
    return None


def scale_text(word: str, value: float) -> str | None:
    """``64**-0.5`` of the 0.125 that a SCALE is: what heads are wide. None of any other number or name."""
    is_of_heads = math.isfinite(value) and 1 / _LARGEST < value < 0.25 and math.frexp(value)[0] == 0.5
    return f"{round(value**-2)}**-0.5" if is_of_heads and word.upper().endswith("SCALE") else None


def log_of(value: float) -> int | None:
    """The whole number that `value` is the logarithm of, where nobody would write its digits."""
    whole = _whole(math.exp(value)) if _is_long(value) and 0 < value < math.log(_LARGEST) else None
    return whole if whole and math.log(whole) == value else None


def _is_long(value: float) -> bool:
    digits = repr(value).partition("e")[0].replace(".", "").strip("-0")
    return math.isfinite(value) and len(digits) > _MOST_DIGITS and 1 / _LARGEST < abs(value) < _LARGEST


def _whole(value: float) -> int | None:
    """The whole number, from two on, that is about `value`."""
    nearest = round(value)
    return nearest if 2 <= nearest <= _LARGEST and abs(value - nearest) < 1e-6 * nearest else None


def size_text(size: sympy.Expr, words: Mapping[str, str], is_alone: bool = False) -> str:
    """The size with each symbol replaced by its word (or expression).

    Args:
        is_alone: Nothing stands beside it that binds as closely as a quotient, which then needs no parentheses.

    Raises:
        CaptureError: The size is computed in a way that Python's whole numbers have no word for.
    """
    return str(_SizePrinter(words, is_alone).doprint(size))


_QUOTIENTS = frozenset({"FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod", "floor", "ceiling"})
# What torch computes of sizes in floats, and how Python writes it.
_OF_FRACTIONS = {"FloatPow": "**", "IntTrueDiv": "/", "FloatTrueDiv": "/"}


def _is_fraction(size: sympy.Expr) -> bool:
    """Whether a number that follows from sizes is no whole one: ``n ** -0.5``."""
    return size.has(sympy.Float) or any(
        type(part).__name__ in ("ToFloat", *_OF_FRACTIONS) for part in sympy.preorder_traversal(size)
    )


class _SizePrinter(StrPrinter):
    """Quotients of whole numbers are printed as ``//``, which is exact where the size is one."""

    printmethod = (
        "_as_size"  # which no class has: torch's own quotients would print themselves, without spaces
    )

    def __init__(self, words: Mapping[str, str], is_alone: bool = False) -> None:
        super().__init__()
        self._words = words
        self._is_alone = is_alone

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return self._words.get(expr.name, expr.name)

    def _print_Mul(self, expr: sympy.Expr) -> str:
        numerator, denominator = sympy.fraction(expr)
        if denominator == 1:
            return str(super()._print_Mul(expr))
        if _is_fraction(expr):
            return f"({self._tight(numerator)} / {self._tight(denominator)})"
        return self._quotient(numerator, denominator)

    def _quotient(self, numerator: sympy.Expr, denominator: sympy.Expr) -> str:
        return self._bound(f"{self._tight(numerator)} // {self._tight(denominator)}")

    def _bound(self, quotient: str) -> str:
        """In parentheses, but where it is the whole and stands alone."""
        is_whole = self._print_level == 1  # of SymPy's own: how deep in the expression it is
        return quotient if is_whole and self._is_alone else f"({quotient})"

    def _tight(self, expr: sympy.Expr) -> str:
        return self.parenthesize(expr, PRECEDENCE["Pow"])

    def parenthesize(self, item: sympy.Expr, level: int, strict: bool = False) -> str:
        """As SymPy does, but quotients have their own parentheses already, and a whole number is a float as it is."""
        while type(item).__name__ == "ToFloat":
            item = item.args[0]
        is_quotient = type(item).__name__ in _QUOTIENTS or (item.is_Mul and sympy.fraction(item)[1] != 1)
        return str(self._print(item) if is_quotient else super().parenthesize(item, level, strict))

    def _print_FloorDiv(self, expr: Any) -> str:
        return self._quotient(*expr.args)

    _print_CleanDiv = _print_FloorDiv

    def _print_floor(self, expr: Any) -> str:
        return self._quotient(*sympy.fraction(sympy.together(expr.args[0])))

    def _print_ceiling(self, expr: Any) -> str:
        numerator, denominator = sympy.fraction(sympy.together(expr.args[0]))
        return self._bound(f"-(-{self._tight(numerator)} // {self._tight(denominator)})")

    def _print_CeilDiv(self, expr: Any) -> str:
        return self._bound(f"-(-{self._tight(expr.args[0])} // {self._tight(expr.args[1])})")

    def _print_Mod(self, expr: Any) -> str:
        return self._bound(f"{self._tight(expr.args[0])} % {self._tight(expr.args[1])}")

    _print_PythonMod = _print_Mod

    def _print_Add(self, expr: Any, order: str | None = None) -> str:
        text = ""
        for term in self._as_ordered_terms(expr, order):
            is_minus = bool(term.as_coeff_Mul()[0].is_negative)
            size = self.parenthesize(-term if is_minus else term, PRECEDENCE["Add"])
            sign = "-" if is_minus else "+"
            text = f"{text} {sign} {size}" if text else "-" * is_minus + size
        return text

    def _print_Max(self, expr: Any) -> str:
        return f"max({', '.join(sorted(map(self._print, expr.args)))})"

    def _print_Min(self, expr: Any) -> str:
        return f"min({', '.join(sorted(map(self._print, expr.args)))})"

    def _print_PowByNatural(self, expr: Any) -> str:
        return f"{self._tight(expr.args[0])}**{self._tight(expr.args[1])}"

    def _print_Float(self, expr: Any) -> str:
        return repr(float(expr))

    def _print_Function(self, expr: Any) -> str:
        name = type(expr).__name__
        if name == "ToFloat":
            return str(self._print(expr.args[0]))
        if name in _OF_FRACTIONS:
            return f"({self._tight(expr.args[0])} {_OF_FRACTIONS[name]} {self._tight(expr.args[1])})"
        raise CaptureError(
            f"A size is computed as {expr}, which generated code cannot write.",
            hint="Make that size a fixed number: leave it out of dynamic_shapes.",
        )


def literal_text(value: Any) -> str:
    """A Python constant as source text."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return python_string(value)
    if isinstance(value, torch.device):
        return f'"{value}"'
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, list | tuple):
        return f"({', '.join(map(literal_text, value))}{',' * (len(value) == 1)})"
    return repr(value)
