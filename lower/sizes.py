"""Exact arithmetic on sizes. Static sizes are ints and never meet SymPy; symbolic ones are memoized SymPy terms."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

import sympy
import torch

from longhand.errors import LoweringError
from longhand.lower.body import Size


def as_size(value: int | torch.SymInt | sympy.Expr) -> Size:
    """An int, or the SymPy term behind a symbolic size. A term that is a number becomes an int."""
    if isinstance(value, torch.SymInt):
        value = value.node.expr
    if isinstance(value, sympy.Expr):
        return int(value) if value.is_Integer else value
    return int(value)


def as_number(value: torch.SymFloat) -> float | sympy.Expr:
    """A number that follows from sizes but is no whole one, such as ``n ** -0.5``: the SymPy term, or a float."""
    term: sympy.Expr = value.node.expr
    return float(term) if term.is_number else term


def add(left: Size, right: Size) -> Size:
    """left + right."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return as_size(_expand(sympy.sympify(left) + right))


def multiply(left: Size, right: Size) -> Size:
    """left * right."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return as_size(_expand(sympy.sympify(left) * right))


def product(sizes: Iterable[Size]) -> Size:
    """The product; 1 for none."""
    return functools.reduce(multiply, sizes, 1)


def same(left: Size, right: Size) -> bool:
    """Whether two sizes are known to be equal."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return bool(add(left, multiply(right, -1)) == 0)


def known_at_most(left: Size, right: Size) -> bool:
    """Whether left <= right for every positive value of the symbols, as far as that is plain to see."""
    if isinstance(left, int) and isinstance(right, int):
        return left <= right
    return _known_nonnegative(_expand(sympy.sympify(right) - left))


def divide(size: Size, divisor: Size) -> Size | None:
    """size / divisor if that is known to be a whole number, otherwise None."""
    if isinstance(size, int) and isinstance(divisor, int):
        return size // divisor if divisor and size % divisor == 0 else None
    return _divide_terms(sympy.sympify(size), sympy.sympify(divisor))


def exact_quotient(size: Size, divisor: Size, quotients: Sequence[Size] = ()) -> Size | None:
    """size / divisor where it is known from elsewhere to be whole, and one of them is a rounded-down quotient.

    ``c / (c // 4)`` is 4; ``c / 4`` is ``c // 4`` if that is among `quotients`.
    """
    if _rounds_down(divisor) and same(divisor.args[0], size):  # type: ignore[union-attr]
        return as_size(divisor.args[1])  # type: ignore[union-attr]
    for quotient in quotients:
        if _rounds_down(quotient) and same(quotient.args[0], size) and same(quotient.args[1], divisor):  # type: ignore[union-attr]
            return quotient
    return None


def _rounds_down(size: Size) -> bool:
    return not isinstance(size, int) and type(size).__name__ in ("FloorDiv", "CleanDiv")


def contiguous_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The strides of a contiguous tensor as torch counts them (a size of 0 counts as 1)."""
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        strides.append(step)
        if size != 0:
            step = multiply(step, size)
    return tuple(reversed(strides))


def static(size: Size, what: str) -> int:
    """The size as an int; LoweringError where it is symbolic but `what` needs a number."""
    if isinstance(size, int):
        return size
    raise LoweringError(f"{what} must be a number, got {size}.")


@functools.lru_cache(maxsize=65536)
def _expand(term: sympy.Expr) -> sympy.Expr:
    return sympy.expand(term)


@functools.lru_cache(maxsize=65536)
def _divide_terms(size: sympy.Expr, divisor: sympy.Expr) -> Size | None:
    if divisor == 0:
        return None
    quotient = sympy.cancel(size / divisor)
    numerator, denominator = sympy.fraction(sympy.together(quotient))
    if denominator != 1:
        return None
    coefficients = sympy.expand(numerator).as_coefficients_dict().values()
    whole = math.prod(1 if coefficient.is_Integer else 0 for coefficient in coefficients)
    return as_size(sympy.expand(quotient)) if whole else None


@functools.lru_cache(maxsize=65536)
def _known_nonnegative(term: sympy.Expr) -> bool:
    at_ones = term.subs({symbol: symbol + 1 for symbol in term.free_symbols})
    coefficients = sympy.expand(at_ones).as_coefficients_dict().values()
    return all(coefficient >= 0 for coefficient in coefficients)
