"""Exact arithmetic and guesses on sizes that may be symbolic. Static sizes are ints and never meet SymPy."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy

from longhand.lower.ir import Size

Hints = Mapping[sympy.Symbol, int]

# The largest value of each symbol; None where nothing says.
Limits = Mapping[sympy.Symbol, int | None]

# What a symbol is taken for where nothing is known about it: only profit depends on this, never correctness.
TYPICAL_SIZE = 1024


def times(left: Size, right: Size) -> Size:
    """left * right."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return _plain(_expand(sympy.sympify(left) * right))


def plus(left: Size, right: Size) -> Size:
    """left + right."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return _plain(_expand(sympy.sympify(left) + right))


def product(sizes: Iterable[Size]) -> Size:
    """The product; 1 for none."""
    return functools.reduce(times, sizes, 1)


def contiguous_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The strides of a contiguous tensor as torch counts them (a size of 0 counts as 1)."""
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        strides.append(step)
        step = step if size == 0 else times(step, size)
    return tuple(reversed(strides))


def as_size(size: Any) -> Size:
    """A size of a fake tensor: an int, or the SymPy expression of a symbolic one."""
    node = getattr(size, "node", None)
    return int(size) if node is None else _plain(node.expr)


def same(left: Size, right: Size) -> bool:
    """Whether two sizes are known to be equal."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return left == right or plus(left, times(right, -1)) == 0


def guess(size: Size, hints: Hints) -> int:
    """A number for comparing sizes: the size itself, or what it is for the hinted values of its symbols."""
    if isinstance(size, int):
        return size
    values = {symbol: hints.get(symbol, TYPICAL_SIZE) for symbol in size.free_symbols}
    return int(size.subs(values))


def is_negative(size: Size) -> bool:
    """Whether a coefficient is negative for sure (symbols are positive)."""
    return size < 0 if isinstance(size, int) else bool(size.is_negative)


def divide(size: Size, divisor: Size) -> Size | None:
    """size / divisor if that is known to be a whole number, otherwise None."""
    if isinstance(size, int) and isinstance(divisor, int):
        return size // divisor if divisor and size % divisor == 0 else None
    return _divide_terms(sympy.sympify(size), sympy.sympify(divisor))


def known_at_most(left: Size, right: Size) -> bool:
    """Whether left <= right for every positive value of the symbols, as far as that is plain to see."""
    if isinstance(left, int) and isinstance(right, int):
        return left <= right
    return _known_nonnegative(_expand(sympy.sympify(right) - left))


def rank(size: Size) -> int:
    """A number to sort symbolic coefficients by; equal for equal sizes, never used to decide what is correct."""
    return size if isinstance(size, int) else _rank(size)


def _plain(term: sympy.Expr) -> Size:
    return int(term) if term.is_Integer else term


@functools.lru_cache(maxsize=65536)
def _expand(term: sympy.Expr) -> sympy.Expr:
    return sympy.expand(term)


@functools.lru_cache(maxsize=65536)
def _rank(term: sympy.Expr) -> int:
    return int(term.subs(dict.fromkeys(term.free_symbols, 1009)))


@functools.lru_cache(maxsize=65536)
def _known_nonnegative(term: sympy.Expr) -> bool:
    at_ones = term.subs({symbol: symbol + 1 for symbol in term.free_symbols})
    coefficients = sympy.expand(at_ones).as_coefficients_dict().values()
    return all(coefficient >= 0 for coefficient in coefficients)


@functools.lru_cache(maxsize=65536)
def _divide_terms(size: sympy.Expr, divisor: sympy.Expr) -> Size | None:
    if divisor == 0:
        return None
    numerator, denominator = sympy.fraction(sympy.together(sympy.cancel(size / divisor)))
    if denominator != 1:
        return None
    expanded = sympy.expand(numerator)
    if not all(coefficient.is_Integer for coefficient in expanded.as_coefficients_dict().values()):
        return None
    return _plain(expanded)
