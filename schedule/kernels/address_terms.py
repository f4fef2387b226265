"""Where an element lies, as a kernel writes it: a sum of products of axes, axis sizes and arguments.

Kernels are independent of sizes: no number of one call stands in an address.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.lower.ir import Size
from longhand.schedule.sizes import times


@dataclasses.dataclass(frozen=True)
class SizeOf:
    """The factor "size of axis"; a size argument of the kernel."""

    axis: str


@dataclasses.dataclass(frozen=True)
class ParameterRef:
    """The factor "value of an integer argument": a stride or an offset that no product of sizes gives."""

    name: str


@dataclasses.dataclass(frozen=True)
class ScalarRef:
    """The factor "value of a number argument": the position of a whole-number `Scalar` of the body."""

    position: int


Factor = SizeOf | ParameterRef | ScalarRef | int
Product = tuple[Factor, ...]  # () is 1


@dataclasses.dataclass(frozen=True)
class Address:
    """An element's position: offset + sum(axis * product) + sum(value * product).

    Attributes:
        axes: (axis name, product), rows first, then cols, each in the kernel's axis order.
        values: (position in the body, product) for gathers.
        offset: A sum of products; empty is 0.
        reversed: Axes walked from their end: their products are negative, and the offset is the sum of ``(size - 1)
            * product`` over them, so that the two may be written as one: ``(size - 1 - axis) * product``.
    """

    axes: tuple[tuple[str, Product], ...]
    values: tuple[tuple[int, Product], ...] = ()
    offset: tuple[Product, ...] = ()
    reversed: tuple[str, ...] = ()


def value_of(factors: Product, sizes: Mapping[str, Size], ints: Mapping[str, Size]) -> Size | None:
    """What a product is in a call with these sizes of axes and arguments; None where numbers of the body are in it."""
    value: Size = 1
    for factor in factors:
        match factor:
            case SizeOf(axis):
                value = times(value, sizes[axis])
            case ParameterRef(name):
                value = times(value, ints[name])
            case int():
                value = times(value, factor)
            case ScalarRef():
                return None
    return value
