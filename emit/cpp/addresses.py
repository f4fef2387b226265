"""Addresses as C++ index arithmetic: factored sums, base pointers, and the tiles that are copied, transposed.

What a loop over columns reads has one base pointer a row; what lies along the rows of a tile is an array.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from longhand.emit.cpp.types import cpp_type
from longhand.emit.text.expression import Precedence, Text
from longhand.lower.ir import Load
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import Factor, KernelPlan, ParameterRef, Product, ScalarRef, SizeOf


@dataclasses.dataclass(frozen=True)
class Term:
    """One summand of a position: a variable (None for a constant summand) times factors, already words."""

    variable: str | None
    factors: tuple[str, ...]
    negative: bool = False


def term(variable: str | None, product: Product, names: KernelNames) -> Term:
    """An axis, a value or nothing times a product of sizes, strides and numbers."""
    words: list[str] = []
    number = 1
    for factor in product:
        if isinstance(factor, int):
            number *= factor
        else:
            words.append(_factor_word(factor, names))
    if abs(number) != 1 or (variable is None and not words):
        words.insert(0, str(abs(number)))
    return Term(variable, tuple(words), number < 0)


def sum_of_terms(terms: tuple[Term, ...]) -> Text:
    """``(batch * n_heads + head) * n_cols + col``: common factors are taken out, what is subtracted comes last."""
    terms = tuple(t for t in terms if t.factors[:1] != ("0",))
    if not terms:
        return Text("0")
    positive = [t for t in terms if not t.negative]
    negative = [t for t in terms if t.negative]
    text = _factored(positive) if positive else Text("0")
    for subtracted in negative:
        right = _factored([subtracted]).within(Precedence.PRODUCT)
        text = Text(f"{text.within(Precedence.SUM)} - {right}", Precedence.SUM)
    return text


def _factored(terms: list[Term]) -> Text:
    """Takes the factors that the longest run of leading terms shares out of them (Horner's scheme)."""
    if len(terms) == 1:
        words = ([terms[0].variable] if terms[0].variable is not None else []) + list(terms[0].factors)
        return Text(" * ".join(words), Precedence.PRODUCT if len(words) > 1 else Precedence.ATOM)
    for end in range(len(terms), 1, -1):
        shared = _shared_factors(terms[:end])
        if not shared:
            continue
        inner = _factored([_without(t, shared) for t in terms[:end]])
        head = Text(" * ".join([inner.within(Precedence.UNARY), *shared]), Precedence.PRODUCT)
        if end == len(terms):
            return head
        return Text(f"{head.text} + {_factored(terms[end:]).text}", Precedence.SUM)
    first, rest = _factored(terms[:1]), _factored(terms[1:])
    return Text(f"{first.text} + {rest.text}", Precedence.SUM)


def _shared_factors(terms: list[Term]) -> list[str]:
    shared = Counter(terms[0].factors)
    for t in terms[1:]:
        shared &= Counter(t.factors)
    if any(t.variable is None and Counter(t.factors) == shared for t in terms):
        return []  # would leave a bare 1
    return [word for word in dict.fromkeys(terms[0].factors) for _ in range(shared[word])]


def _without(t: Term, shared: list[str]) -> Term:
    left = Counter(t.factors) - Counter(shared)
    kept: list[str] = []
    for word in t.factors:
        if left[word] > 0:
            left[word] -= 1
            kept.append(word)
    return Term(t.variable, tuple(kept))


def _factor_word(factor: Factor, names: KernelNames) -> str:
    match factor:
        case SizeOf():
            return names.axes[factor.axis].size
        case ParameterRef():
            return names.ints[factor.name]
        case ScalarRef():
            return names.scalars[factor.position]
    return str(factor)


@dataclasses.dataclass(frozen=True)
class RowPointer:
    """``const float *x_row = x + row * n_cols;``

    Attributes:
        name: ``x_row``.
        pointer: The key of the pointer that it moves along.
        terms: What is added to that pointer.
        values: Positions of the gather values among the terms.
        needs: Names in these that are none of the kernel's own.
    """

    name: str
    pointer: str
    terms: tuple[Term, ...]
    values: tuple[int, ...]
    needs: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class TransposedTile:
    """``float x_tile[TILE_ROWS][TILE_COLS];`` and the call that fills it.

    Attributes:
        name: ``x_tile``.
        type: Of its elements: as in memory.
        source: Where the tile starts: ``x + col_tile * n_rows + row_tile``.
        stride: Elements from one column of the tile to the next: ``n_rows``.
        element: ``x_tile[row - row_tile][col - col_tile]``.
    """

    name: str
    type: str
    source: str
    stride: str
    element: str


def transposed_tiles(plan: KernelPlan, names: KernelNames) -> dict[int, TransposedTile]:
    """One for each of the plan's transposed loads, by its position."""
    tiles: dict[int, TransposedTile] = {}
    if not plan.transposed:
        return tiles
    row, col = plan.rows[-1].name, plan.cols[0].name
    row_index, col_index = names.axes[row].index, names.axes[col].index
    starts = {row: f"{row_index}_tile", col: f"{col_index}_tile"}
    types = {pointer.name: cpp_type(pointer.dtype) for pointer in plan.pointers}
    taken = {*names.values.values(), *names.pointers.values(), *names.scalars.values(), *starts.values()}
    for position in plan.transposed:
        load, address = plan.body[position], plan.addresses[position]
        assert isinstance(load, Load)
        pointer = names.pointers[load.buffer]
        name = f"{pointer}_tile"
        while name in taken:
            name = f"other_{name}"
        taken.add(name)
        terms = [term(starts.get(axis, names.axes[axis].index), step, names) for axis, step in address.axes]
        # The largest steps first: they share factors with what follows.
        terms.sort(key=lambda t: -len(t.factors))
        start = (*terms, *(term(None, step, names) for step in address.offset))
        tiles[position] = TransposedTile(
            name,
            types[load.buffer],
            f"{pointer} + {sum_of_terms(start).text}",
            sum_of_terms((term(None, dict(address.axes)[col], names),)).text,
            f"{name}[{row_index} - {starts[row]}][{col_index} - {starts[col]}]",
        )
    return tiles
