"""Where a Triton function works: index variables, lanes and masks, and the addresses made of them."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Container, Mapping, Sequence

from longhand.emit.text.expression import Precedence, Text, compose, joined, word
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import Address, Factor, ParameterRef, Product, ScalarRef, SizeOf


@dataclasses.dataclass(frozen=True)
class Flat:
    """Axes that one index variable walks together, outermost first: ``row`` over (batch, head, seq).

    Attributes:
        index: The variable.
        axes: The axes' keys.
    """

    index: str
    axes: tuple[str, ...]


def factor_text(factor: Factor, names: KernelNames) -> Text:
    """A size or stride argument, or a number."""
    match factor:
        case SizeOf(axis):
            return word(names.axes[axis].size)
        case ParameterRef(name):
            return word(names.ints[name])
        case ScalarRef(position):
            return word(names.scalars[position])
    return Text(str(factor))


def unflatten(flat: Flat, names: KernelNames) -> list[tuple[str, Text]]:
    """For each axis of a flattened index its variable and the div and mod that yield it, innermost first.

    It is divided by one size after the other: a product of them may pass 32 bits, and what one axis was divided by is
    divided again for the next (a rotary kernel of bfloat16 is up to an eighth faster so).
    """
    lines = []
    inner: list[Text] = []
    for position in range(len(flat.axes) - 1, -1, -1):
        words = names.axes[flat.axes[position]]
        quotient, size = word(flat.index), word(words.size)
        if inner:
            quotient = compose("{} // {}", quotient, joined(reversed(inner), " // "))
        lines.append((words.index, quotient if position == 0 else compose("{} % {}", quotient, size)))
        inner.insert(0, size)
    return lines


@dataclasses.dataclass(frozen=True)
class Addend:
    """A part of a sum.

    Attributes:
        text: Without its sign.
        is_minus: Whether it is taken off.
        multiplies: Whether there is a product in it.
    """

    text: Text
    is_minus: bool
    multiplies: bool


@dataclasses.dataclass(frozen=True)
class AddressText:
    """An address in two parts, either of which may be empty.

    Attributes:
        base: What the rows contribute: ``row * n_cols``.
        rest: What gathered values, the cols and the offset add: ``token * n_cols + col``.
        rest_multiplies: Whether the rest has a product in it.
    """

    base: Text
    rest: Text
    rest_multiplies: bool

    @classmethod
    def of(cls, base: Sequence[Addend], rest: Sequence[Addend]) -> AddressText:
        """Sums of terms."""
        return cls(_sum(base), _sum(rest), any(term.multiplies for term in rest))

    @property
    def whole(self) -> Text:
        """Both parts."""
        return _added(self.base, self.rest)

    def added_to(self, pointer: Text) -> Text:
        """``x_ptr + row * n_cols``"""
        return _added(pointer, self.whole)


def _added(one: Text, other: Text) -> Text:
    """Two sums as one; a second one with a minus of its own is taken off."""
    if not one.text or not other.text:
        return one if one.text else other
    if other.text.startswith("-"):
        other = dataclasses.replace(other, text=other.text[1:])
        return compose("{} - {}", one, other, precedence=Precedence.SUM)
    return compose("{} + {}", one, other, precedence=Precedence.SUM)


def address_text(
    address: Address,
    rows: Flat | None,
    flats: tuple[Flat, ...],
    names: KernelNames,
    value_text: Callable[[int], Text],
) -> AddressText:
    """An address as text.

    Args:
        rows: The flattened index that walks the rows, if there is one.
        flats: All flattened indices; an address that steps through all axes of one contiguously uses it.
        value_text: Prints a value of the body (a gathered index).
    """
    # What is walked from its end: (size - 1 - axis) * product, without the minus and the offset.
    offset = () if address.reversed else address.offset
    remaining: Mapping[str, Product] = {
        axis: product[1:] if axis in address.reversed else product for axis, product in address.axes
    }
    index_of = {
        axis: (
            compose("{} - 1 - {}", word(words.size), word(words.index), precedence=Precedence.SUM)
            if axis in address.reversed
            else word(words.index)
        )
        for axis, words in names.axes.items()
    }
    if len(flats) > 2 and not address.values and not offset and all(len(f.axes) == 1 for f in flats):
        return AddressText.of((), _nested(remaining, names, index_of))  # a tile of a batch: one nested sum
    base: list[Addend] = []
    rest = [_scaled(value_text(position), product, names) for position, product in address.values]
    for flat in flats:
        terms = base if flat == rows else rest
        steps = {axis: remaining[axis] for axis in flat.axes if axis in remaining}
        remaining = {axis: product for axis, product in remaining.items() if axis not in steps}
        merged = None if address.reversed else _merged(flat, steps)
        if merged is not None:
            terms.append(_scaled(word(flat.index), merged, names))
        else:
            terms += _nested(steps, names, index_of)
    rest += _nested(remaining, names, index_of)
    rest += [_scaled(None, product, names) for product in offset]
    return AddressText.of(base, rest)


def _sum(terms: Sequence[Addend]) -> Text:
    """Terms added up; those that are taken off come last."""
    text = joined((term.text for term in terms if not term.is_minus), " + ")
    for term in terms:
        if term.is_minus:
            text = compose("{} - {}", text, term.text) if text.text else compose("-{}", term.text)
    return dataclasses.replace(text, precedence=_binds(terms))


def _binds(terms: Sequence[Addend]) -> Precedence:
    """How closely a sum binds."""
    if len(terms) > 1:
        return Precedence.SUM
    return terms[0].text.precedence if terms else Precedence.ATOM


def _scaled(index: Text | None, product: Product, names: KernelNames) -> Addend:
    """index * product, with the sign of its number in front."""
    number = math.prod(factor for factor in product if isinstance(factor, int))
    factors = [factor_text(factor, names) for factor in product if not isinstance(factor, int)]
    if abs(number) != 1 or (index is None and not factors):
        factors.append(Text(str(abs(number))))
    if index is not None:
        factors.insert(0, index.operand(Precedence.PRODUCT if factors or number < 0 else Precedence.SUM))
    alone = index.precedence if index is not None else Precedence.ATOM
    precedence = Precedence.PRODUCT if len(factors) > 1 else alone
    return Addend(joined(factors, " * ", precedence), number < 0, precedence is Precedence.PRODUCT)


def _nested(steps: Mapping[str, Product], names: KernelNames, index_of: Mapping[str, Text]) -> list[Addend]:
    """Terms for axes; those that lie one inside the other are nested: ``(batch * n_seqs + seq) * stride``."""
    terms = []
    remaining = dict(steps)
    while remaining:
        inner = next(
            axis
            for axis, product in remaining.items()
            if not any(_is_around(remaining, inside, axis) for inside in remaining)
        )
        innermost = remaining.pop(inner)
        chain = [inner]
        product = innermost
        while True:
            around = (*product, SizeOf(chain[-1]))
            outer = next((a for a, p in remaining.items() if _canonical(p) == _canonical(around)), None)
            if outer is None:
                break
            product = remaining.pop(outer)
            chain.append(outer)
        index = index_of[chain[-1]]
        for axis in reversed(chain[:-1]):
            factor, size = index.operand(Precedence.PRODUCT), word(names.axes[axis].size)
            index = compose("{} * {} + {}", factor, size, index_of[axis], precedence=Precedence.SUM)
        term = _scaled(index, innermost, names)
        terms.append(dataclasses.replace(term, multiplies=term.multiplies or len(chain) > 1))
    return terms


def _is_around(steps: Mapping[str, Product], inner: str, outer: str) -> bool:
    return inner != outer and _canonical(steps[outer]) == _canonical((*steps[inner], SizeOf(inner)))


def _merged(flat: Flat, products: Mapping[str, Product]) -> Product | None:
    """The step of the flattened index, if the address walks all its axes contiguously one inside the other."""
    if not flat.axes or any(axis not in products for axis in flat.axes):
        return None
    for outer, inner in zip(flat.axes, flat.axes[1:], strict=False):
        if _canonical(products[outer]) != _canonical((*products[inner], SizeOf(inner))):
            return None
    return products[flat.axes[-1]]


def _canonical(product: Product) -> tuple[str, ...]:
    return tuple(sorted(repr(factor) for factor in product if factor != 1))


class StatementKind(enum.Enum):
    """What a statement does; a change of kind starts a paragraph."""

    LOAD = "load"
    COMPUTE = "compute"
    STORE = "store"


@dataclasses.dataclass(frozen=True)
class Line:
    """One statement.

    Attributes:
        kind: What it does.
        text: The whole.
        target: The variable that it binds; empty where it binds none, or another than values and masks have.
    """

    kind: StatementKind
    text: Text
    target: str = ""


@dataclasses.dataclass(frozen=True)
class Side:
    """How a function holds the rows (or the cols) of the plan's space.

    Attributes:
        axes: The axes' keys, outermost first. Empty: there is no such side.
        lanes: The constexpr that says how many a program holds at once; empty: it holds one.
        mask: The name of the mask that keeps lanes in range; None where none can be out.
    """

    axes: tuple[str, ...] = ()
    lanes: str = ""
    mask: str | None = None


@dataclasses.dataclass(frozen=True)
class Space:
    """How a function holds the plan's space.

    Attributes:
        flats: The index variables and what they flatten.
        rows: The row side.
        cols: The col side.
        both: The name of the mask of both sides together.
        width: The shape of a block along the reduced side, for accumulators: ``[COLS]``.
    """

    flats: tuple[Flat, ...]
    rows: Side
    cols: Side
    both: str = "in_range"
    width: str = "[COLS]"

    @property
    def is_tile(self) -> bool:
        """Whether both sides are lanes."""
        return bool(self.rows.lanes and self.cols.lanes)

    def shape(self, axes: Container[str]) -> str:
        """The shape of a block that varies along these axes: ``[1, COLS]``; empty for a scalar."""
        varies = [side.lanes and any(axis in axes for axis in side.axes) for side in (self.rows, self.cols)]
        if not any(varies):
            return ""
        sizes = [
            side.lanes if is_varying else "1"
            for side, is_varying in zip((self.rows, self.cols), varies, strict=True)
            if side.lanes
        ]
        return f"[{', '.join(sizes)}]"

    def sides(self, axes: Container[str]) -> tuple[bool, bool]:
        """Whether what varies along these axes varies along the row side, and along the col side."""
        rows, cols = (any(axis in axes for axis in side.axes) for side in (self.rows, self.cols))
        return rows, cols
