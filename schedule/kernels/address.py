"""Coefficients become products of axis sizes where an access is a contiguous chain, and stride arguments elsewhere.

A chain: the innermost coefficient is 1, and each next one is the coefficient below it times the size below it. Where
an access leaves the chain (a slice of a wider tensor) that one coefficient becomes an argument and the chain goes on
from it. Whether a coefficient is part of the chain follows from the access alone, so that calls of other sizes get the
same kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from longhand.lower.ir import BOUNDARIES, Axis, Index, IndexExpression, Load, Scalar, Size, Store, Value
from longhand.schedule.kernels.address_terms import Address, ParameterRef, Product, ScalarRef, SizeOf
from longhand.schedule.kernels.kernel_plan import IntParameter
from longhand.schedule.sizes import Hints, guess, is_negative, plus, same, times

# Numbers from here on read better as an argument with a name.
LARGEST_PLAIN_NUMBER = 10


@dataclasses.dataclass(frozen=True)
class Addresses:
    """How a body's values are addressed.

    Attributes:
        by_position: For each Load, Store and IndexExpression.
        ints: The stride and offset arguments that the addresses use.
        values: What this call passes for them.
        dims: For each pointer, see `Pointer.dims`.
    """

    by_position: Mapping[int, Address]
    ints: tuple[IntParameter, ...]
    values: tuple[Size, ...]
    dims: Mapping[str, tuple[str, ...] | None]


def find_addresses(
    body: tuple[Value, ...],
    axes: tuple[Axis, ...],
    hints: Hints,
    strided: Collection[tuple[str, str]] = (),
    begun: Collection[str] = (),
) -> Addresses:
    """Address every load, store and position of a body over merged `axes` (rows first).

    Args:
        body: The kernel's.
        axes: Its rows and cols.
        hints: Values of symbolic sizes.
        strided: (pointer, axis) of coefficients that are arguments though sizes give them: see `kernels.twins`.
        begun: The pointers that are given an offset even where that is 0.
    """
    limits = {
        position: value.value
        for position, value in enumerate(body)
        if isinstance(value, Scalar) and value.name in BOUNDARIES
    }
    finder = _ProductFinder(axes, hints, limits, strided, begun)
    indexed = {
        position: value
        for position, value in enumerate(body)
        if isinstance(value, Load | Store | IndexExpression)
    }
    for value in indexed.values():
        finder.learn(_pointer(value), value.index)
    by_position = {
        position: finder.address(_pointer(value), value.index) for position, value in indexed.items()
    }
    order = _order_of_arguments(finder.ints, axes, strided)
    return Addresses(
        by_position,
        tuple(finder.ints[place] for place in order),
        tuple(finder.values[place] for place in order),
        _all_dims(list(indexed.values()), axes, hints),
    )


def _order_of_arguments(
    ints: Sequence[IntParameter], axes: tuple[Axis, ...], strided: Collection[tuple[str, str]]
) -> list[int]:
    """The order of a kernel's arguments: strides that several calls share come as the axes do, outermost first,
    however each call's tensor lies in memory.
    """
    places = list(range(len(ints)))
    shared = [place for place in places if (ints[place].pointer, ints[place].axis) in strided]
    depth = {axis.name: count for count, axis in enumerate(axes)}
    pointers = list(dict.fromkeys(parameter.pointer for parameter in ints))
    ordered = sorted(
        shared, key=lambda place: (pointers.index(ints[place].pointer), depth.get(ints[place].axis or "", 0))
    )
    for place, parameter in zip(shared, ordered, strict=True):
        places[place] = parameter
    return places


def _pointer(value: Load | Store | IndexExpression) -> str | None:
    return None if isinstance(value, IndexExpression) else value.buffer


class _ProductFinder:
    """Products for coefficients, and the arguments made so far."""

    def __init__(
        self,
        axes: tuple[Axis, ...],
        hints: Hints,
        limits: Mapping[int, Size],
        strided: Collection[tuple[str, str]],
        begun: Collection[str],
    ) -> None:
        self.limits = limits  # where one piece of a joined tensor ends: the next one is read that far back
        self.sizes = {axis.name: axis.size for axis in axes}
        self.hints = hints
        self.strided = strided
        self.begun = begun
        self.ints: list[IntParameter] = []
        self.values: list[Size] = []
        # What the accesses of a pointer have shown: (pointer, axis or None for gathers, coefficient, product).
        self.known: list[tuple[str | None, str | None, Size, Product]] = []

    def learn(self, pointer: str | None, index: Index) -> None:
        """Remember the coefficients that this access explains without any argument."""
        step: Size = 1
        walked: Product = ()
        remaining = self._magnitudes(index)
        while (axis := self._next_in_chain(remaining, step)) is not None:
            if (pointer, axis) in self.strided:
                return
            self._remember(pointer, axis, step, walked)
            step, walked = times(step, self.sizes[axis]), (SizeOf(axis), *walked)
            del remaining[axis]
            self._remember(pointer, None, step, walked)

    def address(self, pointer: str | None, index: Index) -> Address:
        """The address of one access."""
        products = self._products(pointer, index)
        flipped = {axis for axis, factor in index.axes if is_negative(factor)}
        axes = tuple(
            (axis, (-1, *products[axis]) if axis in flipped else products[axis])
            for axis in self.sizes
            if axis in products
        )
        values = tuple((position, self._gather(pointer, factor)) for position, factor in index.values)
        ends = self._ends(index, products, flipped)
        if ends is not None:
            return Address(axes, values, ends, tuple(axis for axis, _ in axes if axis in flipped))
        return Address(axes, values, self._offset(pointer, index))

    def _magnitudes(self, index: Index) -> dict[str, Size]:
        steps = dict(index.axes)
        return {
            axis: times(steps[axis], -1) if is_negative(steps[axis]) else steps[axis]
            for axis in reversed(self.sizes)
            if axis in steps
        }

    def _next_in_chain(self, remaining: Mapping[str, Size], step: Size) -> str | None:
        return next((axis for axis, magnitude in remaining.items() if same(magnitude, step)), None)

    def _is_plain_number(self, pointer: str | None, value: Size) -> bool:
        """Small numbers of an IndexExpression are math (the diagonal of tril), not sizes: they stay in the text."""
        return pointer is None and isinstance(value, int) and abs(value) < LARGEST_PLAIN_NUMBER

    def _products(self, pointer: str | None, index: Index) -> dict[str, Product]:
        """For each axis the product that its coefficient's magnitude is."""
        step: Size = 1
        walked: Product = ()
        products: dict[str, Product] = {}
        remaining = self._magnitudes(index)
        products.update({axis: () for axis, magnitude in remaining.items() if magnitude == 1})
        while remaining:
            axis = self._next_in_chain(remaining, step) or ""
            if not axis:
                axis = min(remaining, key=lambda name: guess(remaining[name], self.hints))
                step = remaining[axis]
                walked = products[axis] if axis in products else self._argument(pointer, axis, step, "stride")
            elif (pointer, axis) in self.strided and axis not in products:
                walked = self._argument(pointer, axis, step, "stride")
            products.setdefault(axis, walked)
            step, walked = times(step, self.sizes[axis]), (SizeOf(axis), *walked)
            del remaining[axis]
        return products

    def _gather(self, pointer: str | None, factor: Size) -> Product:
        """The product that a gathered value is multiplied with."""
        if same(factor, 1):
            return ()
        return self._argument(pointer, None, factor, "index_stride")

    def _ends(
        self, index: Index, products: Mapping[str, Product], flipped: set[str]
    ) -> tuple[Product, ...] | None:
        """The constant part where it is where the flipped axes begin: (size - 1) times their products."""
        ends: Size = 0
        terms: list[Product] = []
        for axis, factor in index.axes:
            if axis in flipped:
                ends = plus(ends, times(times(factor, -1), plus(self.sizes[axis], -1)))
                terms += [(SizeOf(axis), *products[axis]), (-1, *products[axis])]
        return tuple(terms) if terms and same(ends, index.offset) else None

    def _offset(self, pointer: str | None, index: Index) -> tuple[Product, ...]:
        """The constant part: where a piece of a joined tensor ends, else an argument."""
        if pointer in self.begun:
            return (self._argument(pointer, None, index.offset, "offset", remember=False),)
        if same(index.offset, 0):
            return ()
        for position, limit in self.limits.items():
            if same(index.offset, limit):
                return ((ScalarRef(position),),)
            if same(index.offset, times(limit, -1)):
                return ((-1, ScalarRef(position)),)
        return (self._argument(pointer, None, index.offset, "offset", remember=False),)

    def _argument(
        self, pointer: str | None, axis: str | None, value: Size, role: str, remember: bool = True
    ) -> Product:
        """What is known for this coefficient of the pointer, else a new argument. Offsets are shared by value too."""
        if self._is_plain_number(pointer, value):
            assert isinstance(value, int)
            return (value,)
        for pointer_, axis_, value_, product_ in self.known if remember else ():
            if (pointer_, axis_) == (pointer, axis) and same(value_, value):
                return product_
        words = [pointer or "position", *([axis] if axis else []), role]
        stem, count = "_".join(words), 2
        taken = {parameter.name: place for place, parameter in enumerate(self.ints)}
        name = stem
        while name in taken:
            if not remember and same(self.values[taken[name]], value):
                return (ParameterRef(name),)
            if not remember and same(self.values[taken[name]], times(value, -1)):
                return (-1, ParameterRef(name))
            name, count = f"{stem}_{count}", count + 1
        self.ints.append(IntParameter(name, pointer, axis))
        self.values.append(value)
        if remember:
            self._remember(pointer, axis, value, (ParameterRef(name),))
        return (ParameterRef(name),)

    def _remember(self, pointer: str | None, axis: str | None, value: Size, product: Product) -> None:
        self.known.append((pointer, axis, value, product))


def _all_dims(
    values: list[Load | Store | IndexExpression], axes: tuple[Axis, ...], hints: Hints
) -> dict[str, tuple[str, ...] | None]:
    dims: dict[str, tuple[str, ...] | None] = {}
    plain: dict[str, set[tuple[str, ...] | None]] = {}
    for value in values:
        if not isinstance(value, IndexExpression):
            dims[value.buffer] = None
            if not value.index.values:
                plain.setdefault(value.buffer, set()).add(_dims(value.index, axes, hints))
    for pointer, seen in plain.items():
        dims[pointer] = next(iter(seen)) if len(seen) == 1 else None
    return dims


def _dims(index: Index, axes: tuple[Axis, ...], hints: Hints) -> tuple[str, ...] | None:
    """The axes of an index, outermost first; None where elements overlap."""
    sizes = {axis.name: guess(axis.size, hints) for axis in axes}
    place = {axis.name: count for count, axis in enumerate(axes)}
    steps = {axis: abs(guess(factor, hints)) for axis, factor in index.axes}
    inner_first = sorted(steps, key=lambda axis: (steps[axis], -place[axis]))
    reach = 0
    for axis in inner_first:
        if steps[axis] <= reach:
            return None
        reach += steps[axis] * (sizes[axis] - 1)
    return tuple(reversed(inner_first))
