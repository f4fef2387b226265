"""The number that a product of an address is in one launch."""

from __future__ import annotations

from collections.abc import Mapping

from longhand.lower.ir import Size
from longhand.schedule.kernels.address_terms import Factor, ParameterRef, Product, ScalarRef, SizeOf
from longhand.schedule.sizes import times


def evaluate(
    product: Product, sizes: Mapping[str, Size], ints: Mapping[str, Size], scalars: Mapping[int, Size]
) -> Size:
    """The number that a product is in one launch."""
    total: Size = 1
    for factor in product:
        total = times(total, _factor(factor, sizes, ints, scalars))
    return total


def _factor(
    factor: Factor, sizes: Mapping[str, Size], ints: Mapping[str, Size], scalars: Mapping[int, Size]
) -> Size:
    match factor:
        case ScalarRef(position):
            return scalars[position]
        case SizeOf(axis):
            return sizes[axis]
        case ParameterRef(name):
            return ints[name]
    return factor
