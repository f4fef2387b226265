"""Addresses and flattened indices as Triton text: ``row * n_cols + col``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from longhand.emit.expression import Precedence, Text
from longhand.emit.names import KernelNames
from longhand.schedule.plan import Address, Factor, ParameterRef, Product, SizeOf


@dataclasses.dataclass(frozen=True)
class Flat:
    """Axes that one index variable walks together, outermost first: ``row`` over (batch, head, seq).

    Attributes:
        index: The variable.
        axes: The axes' keys.
    """

    index: str
    axes: tuple[str, ...]


def factor_text(factor: Factor, names: KernelNames) -> str:
    """A size or stride argument, or a number."""
    match factor:
        case SizeOf(axis):
            return names.axes[axis].size
        case ParameterRef(name):
            return names.ints[name]
    return str(factor)


def product_text(product: Product, names: KernelNames) -> Text:
    """The factors of a product; 1 for none."""
    if not product:
        return Text("1")
    joined = " * ".join(factor_text(factor, names) for factor in product)
    return Text(joined, Precedence.ATOM if len(product) == 1 else Precedence.PRODUCT)


def unflatten(flat: Flat, names: KernelNames) -> list[tuple[str, str]]:
    """For each axis of a flattened index its variable and the div and mod that yield it, innermost first."""
    lines = []
    inner: list[str] = []
    for position in range(len(flat.axes) - 1, -1, -1):
        words = names.axes[flat.axes[position]]
        quotient = flat.index
        if inner:
            divisor = " * ".join(inner)
            quotient += f" // {divisor}" if len(inner) == 1 else f" // ({divisor})"
        lines.append((words.index, quotient if position == 0 else f"{quotient} % {words.size}"))
        inner.insert(0, words.size)
    return lines


def address_terms(
    address: Address,
    flats: tuple[Flat, ...],
    names: KernelNames,
    value_text: Callable[[int], Text],
) -> list[str]:
    """The terms of an address's sum: rows, cols, gathered values, offset.

    Args:
        flats: The flattened indices; an address that steps through all of a flattened index's axes as one uses it.
        value_text: Prints a value of the body (a gathered index).
    """
    remaining: Mapping[str, Product] = dict(address.axes)
    terms = []
    for flat in flats:
        merged = _merged(flat, remaining)
        if merged is not None:
            terms.append(_scaled(Text(flat.index), merged, names))
            remaining = {axis: product for axis, product in remaining.items() if axis not in flat.axes}
        else:
            for axis in flat.axes:
                if axis in remaining:
                    terms.append(_scaled(Text(names.axes[axis].index), remaining[axis], names))
            remaining = {axis: product for axis, product in remaining.items() if axis not in flat.axes}
    terms += [_scaled(Text(names.axes[axis].index), product, names) for axis, product in remaining.items()]
    terms += [_scaled(value_text(position), product, names) for position, product in address.values]
    terms += [product_text(product, names).text for product in address.offset]
    return terms


def _scaled(index: Text, product: Product, names: KernelNames) -> str:
    if not product:
        return index.within(Precedence.SUM)
    return f"{index.within(Precedence.PRODUCT)} * {product_text(product, names).text}"


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
