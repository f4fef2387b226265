"""How a number of each of several modules is put together of sizes in which they differ: ``2 * n_in + growth``."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterator, Sequence

import sympy

from longhand.lower.ir import Size
from longhand.schedule.functions.alike_steps import SizeSymbol

Column = tuple[int, ...]  # what a number is in each of the modules

_MOST_TIMES = 8
_DIVISORS = (2, 3, 4, 8, 16)
_MOST_PLUS = 4  # gates beside the channels, a token beside the patches
_MOST_FACTORS = 3


@dataclasses.dataclass(frozen=True)
class Told:
    """A size over symbols, which comes out right in each of the modules."""

    size: Size


def told_by_symbols(sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol]) -> Told | None:
    """How symbols tell a column, the plainest way; None where they do not.

    Args:
        sizes: The column, which is no symbol by itself.
        symbols: Sizes in which the modules differ.
        fixed: Others with a word, which may stand beside them.
    """
    if all(size < 0 for size in sizes):
        told = told_by_symbols(tuple(-size for size in sizes), symbols, fixed)
        exact = next((one.size for one in symbols if one.sizes == tuple(-size for size in sizes)), None)
        return Told(-exact) if exact is not None else Told(-told.size) if told is not None else None
    if any(size <= 0 for size in sizes):
        return None
    ways = _ways(sizes, [one for one in symbols if one.is_told], fixed)
    return next((Told(way) for way in ways if _comes_out(way, sizes, (*symbols, *fixed))), None)


def _ways(sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol]) -> Iterator[sympy.Expr]:
    """The plainest first."""
    for one in symbols:
        times = _ratio(sizes, one.sizes)
        if times is not None and 1 < times <= _MOST_TIMES:
            yield times * one.size
    yield from _products(sizes, symbols, fixed)
    for one in symbols:
        for divisor in _DIVISORS:
            if all(size % divisor == 0 for size in one.sizes) and _ratio(one.sizes, sizes) == divisor:
                yield one.size / divisor
        for other in (*symbols, *fixed):
            pairs = zip(one.sizes, other.sizes, sizes, strict=True)
            if other is not one and all(whole == part * size for whole, part, size in pairs):
                yield one.size / other.size
    yield from _sums(sizes, symbols, fixed)
    for of in _factors(symbols, fixed, 2):
        product = _column(of)
        if all(size % part == 0 for size, part in zip(sizes, product, strict=True)):
            rest = tuple(size // part for size, part in zip(sizes, product, strict=True))
            if len(set(rest)) > 1:
                yield from (_of(of) * total for total in _sums(rest, symbols, fixed))


def _products(
    sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol]
) -> Iterator[sympy.Expr]:
    """Of few factors before many, of different ones before squares, without a number before with one."""
    found: list[tuple[int, int, int, sympy.Expr]] = []
    for count in range(2, _MOST_FACTORS + 1):
        for of in _factors(symbols, fixed, count):
            times = _ratio(sizes, _column(of))
            if times is not None and times <= _MOST_TIMES:
                found.append((times != 1, count, count - len({one.word for one in of}), times * _of(of)))
    yield from (one[-1] for one in sorted(found, key=lambda one: one[:3]))


def _sums(sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol]) -> Iterator[sympy.Expr]:
    for plus in range(1, _MOST_PLUS + 1):
        less = tuple(size - plus for size in sizes)
        for one in symbols:
            times = _ratio(less, one.sizes)
            if times is not None and times <= _MOST_PLUS:
                yield times * one.size + plus
    for first in symbols:
        rest = tuple(size - part for size, part in zip(sizes, first.sizes, strict=True))
        for second in (*symbols, *fixed):
            times = _ratio(rest, second.sizes)
            if second is not first and times is not None and times <= _MOST_TIMES:
                yield first.size + times * second.size
            if second is not first and all(-left == part for left, part in zip(rest, second.sizes, strict=True)):
                yield first.size - second.size


def _factors(
    symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol], count: int
) -> Iterator[tuple[SizeSymbol, ...]]:
    """So many sizes, of which at least one is another in each module."""
    every = (*symbols, *fixed)
    for of in itertools.combinations_with_replacement(every, count):
        if any(one in symbols for one in of):
            yield of


def _column(of: Sequence[SizeSymbol]) -> Column:
    return tuple(
        functools.reduce(operator.mul, sizes) for sizes in zip(*(one.sizes for one in of), strict=True)
    )


def _of(of: Sequence[SizeSymbol]) -> sympy.Expr:
    return sympy.Mul(*(one.size for one in of))


def _ratio(sizes: Column, parts: Column) -> int | None:
    """How often one column is another; None where that is no one number."""
    if any(part <= 0 or size <= 0 or size % part for size, part in zip(sizes, parts, strict=True)):
        return None
    times = {size // part for size, part in zip(sizes, parts, strict=True)}
    return times.pop() if len(times) == 1 else None


def _comes_out(way: sympy.Expr, sizes: Column, symbols: Sequence[SizeSymbol]) -> bool:
    """Whether a size over symbols is the number of each module."""
    return all(
        way.subs({one.size: one.sizes[place] for one in symbols}) == size for place, size in enumerate(sizes)
    )
