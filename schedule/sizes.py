"""Guesses on sizes that may be symbolic, beside the exact arithmetic of lower/sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import sympy

from longhand.lower.ir import Size
from longhand.lower.sizes import add as plus
from longhand.lower.sizes import as_size, contiguous_strides, divide, known_at_most, product, same
from longhand.lower.sizes import multiply as times

__all__ = [
    "TYPICAL_SIZE",
    "Hints",
    "Limits",
    "as_size",
    "contiguous_strides",
    "divide",
    "guess",
    "is_negative",
    "known_at_most",
    "plus",
    "product",
    "rank",
    "same",
    "times",
]

Hints = Mapping[sympy.Symbol, int]

# The largest value of each symbol; None where nothing says.
Limits = Mapping[sympy.Symbol, int | None]

# What a symbol is taken for where nothing is known about it: only profit depends on this, never correctness.
TYPICAL_SIZE = 1024


def guess(size: Size, hints: Hints) -> int:
    """A number for comparing sizes: the size itself, or what it is for the hinted values of its symbols."""
    if isinstance(size, int):
        return size
    values = {symbol: hints.get(symbol, TYPICAL_SIZE) for symbol in size.free_symbols}
    return int(size.subs(values))


def is_negative(size: Size) -> bool:
    """Whether a coefficient is negative for sure (symbols are positive)."""
    return size < 0 if isinstance(size, int) else bool(size.is_negative)


def rank(size: Size) -> int:
    """A number to sort symbolic coefficients by; equal for equal sizes, never used to decide what is correct."""
    return size if isinstance(size, int) else _rank(size)


@functools.lru_cache(maxsize=65536)
def _rank(term: sympy.Expr) -> int:
    return int(term.subs(dict.fromkeys(term.free_symbols, 1009)))
