"""Exact arithmetic and guesses on sizes that may be symbolic. Static sizes are ints and never meet SymPy."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import sympy

from longhand.lower.ir import Size

Hints = Mapping[sympy.Symbol, int]

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


def _plain(term: sympy.Expr) -> Size:
    return int(term) if term.is_Integer else term


@functools.lru_cache(maxsize=65536)
def _expand(term: sympy.Expr) -> sympy.Expr:
    return sympy.expand(term)
