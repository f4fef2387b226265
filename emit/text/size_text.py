"""A symbolic size as Python over words: ``2 * seq``, ``seq // 2``, ``max(rows, cols)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from longhand.errors import CaptureError


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
