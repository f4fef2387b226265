"""Rows whose halves are joined, such as rotated positions, are walked half by half: two elements for each column.

A join of two halves picks for each column what it loads: ``where(col < half, -x[col + half], x[col - half])``. Where
columns run over one half alone, each of both halves knows what it picks, so that what both read is loaded once, under
no mask: ``x[col]`` and ``x[col + half]``. The body stays as it is, since names, formulas and references are told of
whole rows; what is printed is the body with one instance of each value for each half.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.capture.graph import Role
from longhand.lower.ir import (
    Axis,
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Scalar,
    Size,
    Store,
    Value,
    arguments,
)
from longhand.schedule.bodies import make_index, rewrite
from longhand.schedule.kernels.address_terms import Address, Product, ScalarRef
from longhand.schedule.numerics.numerics import Numerics
from longhand.schedule.sizes import Hints, guess, same, times


@dataclasses.dataclass(frozen=True)
class Halves:
    """A body over one half of its columns, with an instance of each value for each half.

    Attributes:
        limit: The position in `body` of the Scalar that is half the size of the axis: its loop ends there.
        body: One after the other; what does not differ between the halves stands once.
        addresses: For each Load, Store and IndexExpression of `body`.
        sources: For each value of `body`: the position of the one that it is an instance of.
        sides: For each value of `body`: 0 or 1 where the other half has another instance, else None. Of a load, the
            half that is read.
        numerics: How exactly the values of `body` are computed.
    """

    limit: int
    body: tuple[Value, ...]
    addresses: Mapping[int, Address]
    sources: tuple[int, ...]
    sides: tuple[int | None, ...]
    numerics: Numerics = dataclasses.field(default_factory=Numerics)


def find_halves(
    body: tuple[Value, ...], addresses: Mapping[int, Address], col: Axis, hints: Hints, smallest: int
) -> Halves | None:
    """The body by halves of its only column axis; None where nothing is joined there, or something needs to know where.

    Args:
        body: Without reductions.
        addresses: For each Load, Store and IndexExpression.
        col: The axis.
        hints: Values of symbolic sizes.
        smallest: How many columns a half has at least.
    """
    limits = {
        position
        for position, value in enumerate(body)
        if isinstance(value, Scalar) and _is_half(value, col.size) and _is_compared(position, body)
    }
    if len(limits) != 1 or guess(col.size, hints) < 2 * smallest:
        return None
    writer = _HalvesWriter(body, addresses, col.name, limits.pop())
    return writer.halves() if writer.write(0) and writer.write(1) else None


def _is_half(value: Scalar, size: Size) -> bool:
    is_joint = value.name is Role.HALF and not isinstance(value.value, float)
    return is_joint and same(times(value.value, 2), size)


def _is_compared(limit: int, body: tuple[Value, ...]) -> bool:
    return any(_compares(value, limit, body) for value in body)


def _compares(value: Value, limit: int, body: tuple[Value, ...]) -> bool:
    """Whether a value is ``position < limit``."""
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.LT:
        return False
    left, right = value.args
    return right == limit and isinstance(body[left], IndexExpression)


@dataclasses.dataclass(frozen=True)
class _At:
    """The column, this many halves from where the loop is."""

    halves: int


@dataclasses.dataclass(frozen=True)
class _Unread:
    """What is made of a load of the other half: nobody may look at it."""


_Made = int | bool | _At | _Unread  # a position in the new body, or what is known without any value


class _HalvesWriter:
    """The new body while it is written."""

    def __init__(
        self, body: tuple[Value, ...], addresses: Mapping[int, Address], col: str, limit: int
    ) -> None:
        self.old, self.old_addresses, self.col, self.limit = body, addresses, col, limit
        self.body: list[Value] = []
        self.addresses: dict[int, Address] = {}
        self.sources: list[int] = []
        self.sides: list[int | None] = []
        self.known: dict[object, int] = {}
        self._put(body[limit], None, limit, None)

    def write(self, half: int) -> bool:
        """Appends the instances of one half; False if some value cannot be told by halves."""
        made: dict[int, _Made] = {}
        for position, value in enumerate(self.old):
            instance = self._known(value, made, half)
            if instance is None:
                instance = self._instance(position, value, made, half)
            if instance is None:
                return False
            made[position] = instance
        return True

    def _known(self, value: Value, made: Mapping[int, _Made], half: int) -> _Made | None:
        """What needs no value of its own in this half."""
        if isinstance(value, IndexExpression) and any(axis == self.col for axis, _ in value.index.axes):
            return _At(half) if value.index == make_index(0, [(self.col, 1)]) else None
        if not isinstance(value, Pointwise):
            return None
        args = [made[argument] for argument in value.args]
        match value.op, args:
            case PointwiseOp.LT, [_At(halves=place), int() as limit] if limit == self._limit_of(value):
                return place == 0 if place in (0, 1) else None
            case PointwiseOp.SUB, [_At(halves=place), int() as limit] if limit == self._limit_of(value):
                return _At(place - 1)
            case PointwiseOp.LOGICAL_NOT, [bool() as truth]:
                return not truth
            case PointwiseOp.LOGICAL_AND, [bool() as truth, other] | [other, bool() as truth]:
                return other if truth else False
            case PointwiseOp.LOGICAL_OR, [bool() as truth, other] | [other, bool() as truth]:
                return True if truth else other
            case PointwiseOp.WHERE, [bool() as truth, if_true, if_false]:
                return if_true if truth else if_false
        return None

    def _limit_of(self, value: Pointwise) -> int | None:
        """Where the limit stands in the new body, if the value's second argument is the limit."""
        return 0 if value.args[1] == self.limit else None

    def _instance(self, position: int, value: Value, made: Mapping[int, _Made], half: int) -> _Made | None:
        """The place of the value's instance in the new body."""
        if isinstance(value, Store):
            return self._stored(position, value, made, half)
        if isinstance(value, Load):
            return self._loaded(position, value, made, half)
        if isinstance(value, Constant | Scalar):
            return self._put(value, None, position, None)
        if isinstance(value, AxisSize):
            return None if self.col in value.axes else self._put(value, None, position, None)
        args = [made[argument] for argument in arguments(value)]
        if any(isinstance(argument, _Unread) for argument in args):
            return _Unread()
        places = [argument for argument in args if type(argument) is int]
        if len(places) < len(args):
            return None
        if isinstance(value, IndexExpression):
            return self._put(value, self.old_addresses[position], position, None)
        if not isinstance(value, Pointwise):
            return None
        return self._put(
            self._subtracted(dataclasses.replace(value, args=tuple(places))), None, position, half
        )

    def _loaded(self, position: int, value: Load, made: Mapping[int, _Made], half: int) -> _Made | None:
        mask = made[value.mask] if value.mask is not None else True
        if mask is False:
            return _Unread()
        address, index, place = self.old_addresses[position], value.index, half
        gathered = [(made[at], product) for at, product in address.values]
        for at, product in gathered:
            if not isinstance(at, _At):
                continue
            if product != () or len(gathered) > 1 or self.col in dict(index.axes) or at.halves not in (0, 1):
                return None
            factor = index.values[0][1]
            index = make_index(index.offset, [*index.axes, (self.col, factor)])
            address, place, gathered = (
                dataclasses.replace(address, axes=(*address.axes, (self.col, ())), values=()),
                at.halves,
                [],
            )
            break
        if not all(type(at) is int for at, _ in gathered):
            return None
        renumbered = {old: new for (old, _), (new, _) in zip(address.values, gathered, strict=True)}
        shifted = self._shifted(dataclasses.replace(address, values=tuple(gathered)), place)  # type: ignore[arg-type]
        if shifted is None:
            return None
        moved = make_index(
            index.offset,
            index.axes,
            [(renumbered[at], factor) for at, factor in index.values],  # type: ignore[misc]
        )
        new = dataclasses.replace(value, index=moved, mask=None if mask is True else mask)  # type: ignore[arg-type]
        is_second = (ScalarRef(0),) in [product[-1:] for product in shifted.offset]
        side = int(is_second) if self.col in dict(moved.axes) else None
        return self._put(new, shifted, position, side)

    def _stored(self, position: int, value: Store, made: Mapping[int, _Made], half: int) -> _Made | None:
        mask = made[value.mask] if value.mask is not None else True
        if mask is False:
            return _Unread()
        address = self.old_addresses[position]
        stored = made[value.value]
        shifted = self._shifted(address, half)
        if (
            type(stored) is not int
            or shifted is None
            or address.values
            or value.adds
            or self.col not in dict(value.index.axes)
        ):
            return None
        new = dataclasses.replace(value, value=stored, mask=None if mask is True else mask)  # type: ignore[arg-type]
        return self._put(new, shifted, position, half)

    def _shifted(self, address: Address, half: int) -> Address | None:
        """The address in one half: as many halves farther; None where that is no sum of the kind."""
        step = dict(address.axes).get(self.col)
        limits: dict[Product, int] = {(ScalarRef(self.limit),): 1, (-1, ScalarRef(self.limit)): -1}
        others = tuple(product for product in address.offset if product not in limits)
        products = [product for _, product in (*address.axes, *address.values)]
        if any(isinstance(factor, ScalarRef) for product in (*others, *products) for factor in product):
            return None
        halves = sum(limits.get(product, 0) for product in address.offset)
        if step is None:
            return address if not halves else None
        if address.reversed or (step != () and halves):
            return None
        n_halves = halves + half
        if n_halves < 0:
            return None
        offset: dict[int, tuple[Product, ...]] = {0: (), 1: ((*step, ScalarRef(0)),)}
        several: tuple[Product, ...] = ((n_halves, *step, ScalarRef(0)),)
        return dataclasses.replace(address, offset=(*others, *offset.get(n_halves, several)))

    def _subtracted(self, value: Pointwise) -> Pointwise:
        """``a + -b * c`` as ``a - b * c``, which is the same to the bit."""
        if value.op is not PointwiseOp.ADD or not value.dtype.is_floating_point:
            return value
        for left, right in (value.args, value.args[::-1]):
            product = self.body[right]
            if not isinstance(product, Pointwise) or product.op is not PointwiseOp.MUL:
                continue
            for place, factor in enumerate(product.args):
                negated = self.body[factor]
                if isinstance(negated, Pointwise) and negated.op is PointwiseOp.NEG:
                    args = tuple(negated.args[0] if i == place else one for i, one in enumerate(product.args))
                    plain = self._put(
                        dataclasses.replace(product, args=args), None, self.sources[right], self.sides[right]
                    )
                    return dataclasses.replace(value, op=PointwiseOp.SUB, args=(left, plain))
        return value

    def _put(self, value: Value, address: Address | None, source: int, side: int | None) -> int:
        """The place of a value, which stands there once."""
        key = (_plain(value), address)
        if not isinstance(value, Store) and key in self.known:
            return self.known[key]
        place = len(self.body)
        self.known[key] = place
        self.body.append(value)
        self.sources.append(source)
        self.sides.append(side)
        if address is not None:
            self.addresses[place] = address
        return place

    def halves(self) -> Halves:
        """The new body, without what nobody uses: loads first, as they stand in each half."""
        needed = {0} | {place for place, value in enumerate(self.body) if isinstance(value, Store)}
        for place in range(len(self.body) - 1, -1, -1):
            if place in needed:
                needed |= set(arguments(self.body[place]))
        kept = sorted(needed, key=lambda place: (place != 0, *self._order(place)))
        moved = {old: new for new, old in enumerate(kept)}
        return Halves(
            moved[0],
            tuple(rewrite(self.body[old], moved) for old in kept),
            {
                moved[old]: _renumbered(address, moved)
                for old, address in self.addresses.items()
                if old in moved
            },
            tuple(self.sources[old] for old in kept),
            tuple(self._sides()[old] for old in kept),
        )

    def _order(self, place: int) -> tuple[int, int, int]:
        """Where a value stands: both halves of a tensor one after the other, before what is made of them."""
        value = self.body[place]
        if not isinstance(value, Load) or value.mask is not None or value.index.values:
            return len(self.body), 0, place
        first = next(i for i, v in enumerate(self.body) if isinstance(v, Load) and v.buffer == value.buffer)
        return first, self.sides[place] or 0, place

    def _sides(self) -> list[int | None]:
        """The sides, of values that have an instance for each of both alone."""
        by_source: dict[tuple[object, ...], set[int | None]] = {}
        keys = [self._twins(place) for place in range(len(self.body))]
        for key, side in zip(keys, self.sides, strict=True):
            by_source.setdefault(key, set()).add(side)
        return [side if len(by_source[key]) > 1 else None for key, side in zip(keys, self.sides, strict=True)]

    def _twins(self, place: int) -> tuple[object, ...]:
        """What the instances of a value for both halves have in common."""
        value = self.body[place]
        return ("load", value.buffer) if isinstance(value, Load) else ("value", self.sources[place])


def _plain(value: Value) -> object:
    """What a value is, without what does not matter for that."""
    match value:
        case Store():
            return value
        case Load():
            return value.buffer, value.dtype, value.mask, value.index.values, value.mask and value.other
    return dataclasses.replace(value, origin="")


def _renumbered(address: Address, moved: Mapping[int, int]) -> Address:
    """The address with positions in the body as they are now; the limit stays first."""
    return dataclasses.replace(
        address, values=tuple((moved[position], product) for position, product in address.values)
    )
