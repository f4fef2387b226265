"""How a number of each of several modules is put together of sizes in which they differ: ``2 * n_in + growth``."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import sympy

from longhand.lower.ir import Size
from longhand.schedule.functions.alike_steps import SizeSymbol

Column = tuple[int, ...]  # what a number is in each of the modules

SMALLEST_TELLING = 16  # of sizes of which a few times one, a sum or a part is no chance
_MOST_TIMES = 8
_FEW_TIMES = 4
_DIVISORS = (2, 3, 4, 8, 16, 32)  # halves, the parts of qkv, the groups of a norm
_PARTS = ((3, 2), (4, 3))  # (of how many, so many)
_MOST_PLUS = 4  # gates beside the channels, a token beside the patches
_MOST_FACTORS = 3


def told_by_symbols(sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol]) -> Size | None:
    """How symbols tell a column, the plainest way; None where they do not.

    Args:
        sizes: The column, which is no symbol by itself.
        symbols: Sizes in which the modules differ.
        fixed: Others with a word, which may stand beside them.
    """
    if all(size < 0 for size in sizes):
        plus = tuple(-size for size in sizes)
        exact = next((one.size for one in symbols if one.sizes == plus), None)
        opposite = exact if exact is not None else told_by_symbols(plus, symbols, fixed)
        return -opposite if opposite is not None else None
    if any(size <= 0 for size in sizes):
        return None
    own = [one for one in symbols if not one.is_of_table]
    ways = _ways(sizes, own, fixed)
    return next((way for way in ways if comes_out(way, sizes, (*own, *fixed))), None)


def _ways(sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol]) -> Iterator[sympy.Expr]:
    """The plainest first."""
    for one in symbols:
        times = _ratio(sizes, one.sizes)
        most = _MOST_TIMES if _is_telling(one) else 0 if one.is_told else _FEW_TIMES
        if times is not None and 1 < times <= most:
            yield times * one.size
    yield from _products(sizes, symbols, fixed)
    for one in filter(_is_telling, symbols):
        for divisor in _DIVISORS:
            if one.is_told and _ratio(one.sizes, sizes) == divisor:
                yield one.size / divisor
    for one in filter(_is_telling, symbols):
        for divisor, times in _PARTS:  # where the second of three begins, and the last of four
            if one.is_told and _ratio(tuple(times * size for size in one.sizes), sizes) == divisor:
                yield times * one.size / divisor
    yield from _sums(sizes, symbols, fixed)
    for of in _factors(sizes, symbols, fixed, 2):
        product = _column(of)
        if all(size % part == 0 for size, part in zip(sizes, product, strict=True)):
            rest = tuple(size // part for size, part in zip(sizes, product, strict=True))
            if len(set(rest)) > 1:
                yield from (_of(of) * total for total in _sums(rest, symbols, fixed))
    for one in symbols:  # every other line of an image: of small sizes no more than this is no chance
        if one.is_told and 2 in (_ratio(sizes, one.sizes), _ratio(one.sizes, sizes)):
            yield one.size * sizes[0] / one.sizes[0]


def _is_telling(symbol: SizeSymbol) -> bool:
    return min(symbol.sizes) >= SMALLEST_TELLING


def _products(
    sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol]
) -> Iterator[sympy.Expr]:
    """Without a number before with one, of few factors before many."""
    found: list[tuple[int, int, sympy.Expr]] = []
    for count in range(2, _MOST_FACTORS + 1):
        for of in _factors(sizes, symbols, fixed, count):
            times = _ratio(sizes, _column(of))
            is_of_width = all(one in symbols or _is_telling(one) for one in of)  # and no batch is part of it
            most = _FEW_TIMES if is_of_width else 1
            if times is not None and times <= most:
                found.append((times != 1, count, times * _of(of)))
    yield from (one[-1] for one in sorted(found, key=lambda one: one[:2]))


def _sums(sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol]) -> Iterator[sympy.Expr]:
    telling, others = [*filter(_is_telling, symbols)], [*filter(_is_telling, fixed)]
    for plus in range(1, _MOST_PLUS + 1):
        less = tuple(size - plus for size in sizes)
        for one in telling:
            times = _ratio(less, one.sizes)
            if times is not None and times <= _FEW_TIMES:
                yield times * one.size + plus
    for first in telling:
        rest = tuple(size - part for size, part in zip(sizes, first.sizes, strict=True))
        for second in (*telling, *others):
            times = _ratio(rest, second.sizes)
            if second is not first and times is not None and times <= _MOST_TIMES:
                yield first.size + times * second.size
            if second is not first and all(
                -left == part for left, part in zip(rest, second.sizes, strict=True)
            ):
                yield first.size - second.size


def told_by_namesake(sizes: Column, meant: str, symbols: Sequence[SizeSymbol]) -> Size | None:
    """``2 * width``, a half of it: where a size of the same word, which a tensor tells, is that part of a column."""
    one = next((one for one in symbols if one.word == meant and one.is_told), None)
    if one is None:
        return None
    times, divisor = _ratio(sizes, one.sizes), _ratio(one.sizes, sizes)
    if times is not None and times <= _FEW_TIMES:
        return times * one.size
    return one.size / divisor if divisor in _DIVISORS else None


def _factors(
    sizes: Column, symbols: Sequence[SizeSymbol], fixed: Sequence[SizeSymbol], count: int
) -> Iterator[tuple[SizeSymbol, ...]]:
    """So many sizes, of which at least one is another in each module, and those that tensors tell are of one."""
    parts = [
        one
        for one in (*symbols, *fixed)
        if all(size % part == 0 for size, part in zip(sizes, one.sizes, strict=True))
    ]
    for of in itertools.combinations(parts, count):
        sources = [one.sources or {one.source} for one in of if one in symbols and one.is_told]
        is_of_one = not sources or bool(frozenset.intersection(*map(frozenset, sources)))
        if is_of_one and any(one in symbols for one in of):
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


def comes_out(size: Size, sizes: Column, symbols: Sequence[SizeSymbol]) -> bool:
    """Whether a size over symbols is the number of each module.

    Args:
        size: It.
        sizes: The number of each.
        symbols: All that there are.
    """
    return all(
        value_of(size, {one.word: one.sizes[place] for one in symbols}) == number
        for place, number in enumerate(sizes)
    )


def value_of(size: Size, at: Mapping[str, Size]) -> Fraction | float | None:
    """A sum of products of symbols, or a root of one, with numbers in their places; None where it has none.

    Args:
        size: It.
        at: By word: the number.
    """
    if isinstance(size, int) or size.is_Integer:
        return Fraction(int(size))
    if size.is_Rational:
        return Fraction(int(size.p), int(size.q))
    if size.is_Symbol:
        known = at.get(str(size))
        return Fraction(known) if isinstance(known, int) else None
    if size.is_Pow and size.exp.is_Float:
        base = value_of(size.base, at)
        return None if base is None else float(base) ** float(size.exp)
    if size.is_Pow and size.exp.is_Integer and size.exp > 0:
        base = value_of(size.base, at)
        return None if base is None else base ** int(size.exp)
    parts = [value_of(part, at) for part in size.args]
    plain = [part for part in parts if isinstance(part, Fraction)]
    if len(plain) < len(parts) or not (size.is_Add or size.is_Mul):
        return None
    return sum(plain, Fraction(0)) if size.is_Add else math.prod(plain, start=Fraction(1))
