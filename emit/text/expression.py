"""Expressions: values, numbers and symbolic sizes become text, with the parentheses they need and no others.

A body's value in some dialect; numbers as a person writes them: ``12**-0.5`` for 0.28867513459481287; a size as
Python over words: ``2 * seq``, ``max(rows, cols)``. Operations that each language has as a function of one name
have a row each, for most ops all that has to be spelled; what is spelled otherwise stands in
emit/triton/operators, emit/cpp/operators. PyTorch's name is the op's own (emit/text/reference_ops).
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from longhand.emit.text.quoting import python_string
from longhand.errors import CaptureError
from longhand.lower.ir import PRIMITIVES, Pointwise, PointwiseOp, Value
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
    """

    text: str
    precedence: Precedence = Precedence.ATOM
    needs: frozenset[str] = frozenset()

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
        return Text(self.template.format(*printed), self.precedence, needs)


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
        return Text(names.values[position])
    value = body[position]
    if not isinstance(value, Pointwise):
        return leaf(position)
    printed = [render(arg, body, names, operator_of, leaf, known, top=False) for arg in value.args]
    return operator_of(value).apply(printed)


Op = PointwiseOp


@dataclasses.dataclass(frozen=True)
class Function:
    """An operation by its function's names.

    Attributes:
        triton: ``tl.exp``, ``libdevice.expm1``.
        cpp: ``std::floor``. Without a namespace: a function of libm with a SIMD version in glibc's libmvec, whose name
            has an ``f`` behind it for float32.
    """

    triton: str
    cpp: str

    @property
    def is_in_libmvec(self) -> bool:
        """Whether vector_math.h declares its C++ function as a SIMD function."""
        return "::" not in self.cpp

    @property
    def is_in_libdevice(self) -> bool:
        """Whether it is CUDA's own function, which takes tensors alone."""
        return self.triton.startswith("libdevice.")


FUNCTIONS: Mapping[PointwiseOp, Function] = {
    Op.EXP: Function(triton="tl.exp", cpp="exp"),
    Op.EXP2: Function(triton="tl.exp2", cpp="exp2"),
    Op.EXPM1: Function(triton="libdevice.expm1", cpp="expm1"),
    Op.LOG: Function(triton="tl.log", cpp="log"),
    Op.LOG2: Function(triton="tl.log2", cpp="log2"),
    Op.LOG10: Function(triton="libdevice.log10", cpp="log10"),
    Op.LOG1P: Function(triton="libdevice.log1p", cpp="log1p"),
    Op.SIN: Function(triton="tl.sin", cpp="sin"),
    Op.COS: Function(triton="tl.cos", cpp="cos"),
    Op.TAN: Function(triton="libdevice.tan", cpp="tan"),
    Op.ASIN: Function(triton="libdevice.asin", cpp="asin"),
    Op.ACOS: Function(triton="libdevice.acos", cpp="acos"),
    Op.ATAN: Function(triton="libdevice.atan", cpp="atan"),
    Op.ATAN2: Function(triton="libdevice.atan2", cpp="atan2"),
    Op.SINH: Function(triton="libdevice.sinh", cpp="sinh"),
    Op.COSH: Function(triton="libdevice.cosh", cpp="cosh"),
    Op.TANH: Function(triton="libdevice.tanh", cpp="tanh"),
    Op.ASINH: Function(triton="libdevice.asinh", cpp="asinh"),
    Op.ACOSH: Function(triton="libdevice.acosh", cpp="acosh"),
    Op.ATANH: Function(triton="libdevice.atanh", cpp="atanh"),
    Op.ERF: Function(triton="tl.erf", cpp="erf"),
    Op.ERFC: Function(triton="libdevice.erfc", cpp="erfc"),
    Op.HYPOT: Function(triton="libdevice.hypot", cpp="hypot"),
    Op.POW: Function(triton="libdevice.pow", cpp="pow"),
    Op.FLOOR: Function(triton="tl.floor", cpp="std::floor"),
    Op.CEIL: Function(triton="tl.ceil", cpp="std::ceil"),
    Op.TRUNC: Function(triton="libdevice.trunc", cpp="std::trunc"),
    Op.ROUND: Function(triton="libdevice.rint", cpp="std::nearbyint"),
    Op.SQRT: Function(triton="tl.sqrt_rn", cpp="std::sqrt"),
    Op.ABS: Function(triton="tl.abs", cpp="std::abs"),
    Op.COPYSIGN: Function(triton="libdevice.copysign", cpp="std::copysign"),
    Op.NEXTAFTER: Function(triton="libdevice.nextafter", cpp="std::nextafter"),
    Op.FMA: Function(triton="tl.fma", cpp="std::fma"),
}


def n_arguments(op: PointwiseOp) -> int:
    """How many arguments an operation takes."""
    return PRIMITIVES[op].n_arguments


_MOST_DIGITS = 6  # significant ones that a person types
_LARGEST = 2**20
_ROUND = 1e6  # from here on nobody counts the zeros


def number(value: float) -> str:
    """A float as Python text."""
    text = root_text(value) or _round_text(value) or repr(value)
    if text in ("inf", "-inf", "nan"):
        return f'float("{text}")'
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


def _round_text(value: float) -> str | None:
    """``-1e9``, for a large number with no more than a digit or two; None for another."""
    text = f"{value:.1e}".replace(".0e", "e")
    return text if abs(value) >= _ROUND and math.isfinite(value) and float(text) == value else None


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


def size_text(size: sympy.Expr, words: Mapping[str, str]) -> str:
    """The size with each symbol replaced by its word (or expression).

    Raises:
        CaptureError: The size is computed in a way that Python's whole numbers have no word for.
    """
    return str(_SizePrinter(words).doprint(size))


_COMPARISONS: dict[type, str] = {
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.StrictLessThan: "<",
    sympy.LessThan: "<=",
    sympy.StrictGreaterThan: ">",
    sympy.GreaterThan: ">=",
}


def condition_text(condition: sympy.Basic, words: Mapping[str, str]) -> str:
    """A condition on sizes as Python: ``batch % 4 == 0``.

    Raises:
        CaptureError: It is of a kind that cannot be written.
    """
    if isinstance(condition, sympy.And | sympy.Or):
        word = " and " if isinstance(condition, sympy.And) else " or "
        return word.join(f"({condition_text(part, words)})" for part in condition.args)
    if isinstance(condition, sympy.Not):
        return f"not ({condition_text(condition.args[0], words)})"
    if type(condition) not in _COMPARISONS:
        raise CaptureError(
            f"The code decides by sizes in a way that generated code cannot check: {condition}.",
            hint="Make those sizes fixed numbers: leave them out of dynamic_shapes.",
        )
    left, right = (_without_parentheses(size_text(part, words)) for part in condition.args)
    return f"{left} {_COMPARISONS[type(condition)]} {right}"


def _without_parentheses(text: str) -> str:
    """``a % 4`` for ``(a % 4)``: a comparison binds less tightly."""
    inner = text[1:-1]
    return (
        inner
        if text.startswith("(") and text.endswith(")") and "(" not in inner and ")" not in inner
        else text
    )


class _SizePrinter(StrPrinter):
    """Whole numbers only: every quotient is printed as ``//``, which is exact where the size is one."""

    def __init__(self, words: Mapping[str, str]) -> None:
        super().__init__()
        self._words = words

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return self._words.get(expr.name, expr.name)

    def _print_Mul(self, expr: sympy.Expr) -> str:
        numerator, denominator = sympy.fraction(expr)
        if denominator == 1:
            return str(super()._print_Mul(expr))
        return self._quotient(numerator, denominator)

    def _quotient(self, numerator: sympy.Expr, denominator: sympy.Expr) -> str:
        return f"({self._tight(numerator)} // {self._tight(denominator)})"

    def _tight(self, expr: sympy.Expr) -> str:
        return str(self.parenthesize(expr, PRECEDENCE["Pow"]))

    def _print_FloorDiv(self, expr: Any) -> str:
        return self._quotient(*expr.args)

    _print_CleanDiv = _print_FloorDiv

    def _print_floor(self, expr: Any) -> str:
        return self._quotient(*sympy.fraction(sympy.together(expr.args[0])))

    def _print_ceiling(self, expr: Any) -> str:
        numerator, denominator = sympy.fraction(sympy.together(expr.args[0]))
        return f"(-(-{self._tight(numerator)} // {self._tight(denominator)}))"

    def _print_CeilDiv(self, expr: Any) -> str:
        return f"(-(-{self._tight(expr.args[0])} // {self._tight(expr.args[1])}))"

    def _print_Mod(self, expr: Any) -> str:
        return f"({self._tight(expr.args[0])} % {self._tight(expr.args[1])})"

    _print_PythonMod = _print_Mod

    def _print_Max(self, expr: Any) -> str:
        return f"max({', '.join(sorted(map(self._print, expr.args)))})"

    def _print_Min(self, expr: Any) -> str:
        return f"min({', '.join(sorted(map(self._print, expr.args)))})"

    def _print_PowByNatural(self, expr: Any) -> str:
        return f"{self._tight(expr.args[0])}**{self._tight(expr.args[1])}"

    def _print_Function(self, expr: Any) -> str:
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
