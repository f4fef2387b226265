"""Which elements an access touches, first and last, and whether they are all of its buffer's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from longhand.lower.ir import Buffer, Index, Size
from longhand.lower.sizes import add, known_at_most, multiply, product


def same_as_zero(size: Size) -> bool:
    """Whether a size is 0 for sure."""
    return isinstance(size, int) and size == 0


class Span(NamedTuple):
    """The first and the last element that an access touches."""

    first: Size
    last: Size

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


def span_of(offset: Size, terms: Iterable[tuple[Size, Size]]) -> Span:
    """The span of offset + sum(step * index) with each index below its size; terms are (size, step)."""
    first = last = offset
    for size, step in terms:
        reach = multiply(step, add(size, -1))
        if known_at_most(reach, 0):
            first = add(first, reach)
        else:
            last = add(last, reach)
    return Span(first, last)


def index_span(index: Index, sizes: Mapping[str, Size]) -> Span:
    """The span of an index of these axes."""
    return span_of(index.offset, [(sizes[axis], step) for axis, step in index.axes])


def is_outside(span: Span, buffer: Buffer) -> bool:
    """Whether it certainly leaves the buffer: of sizes that are numbers, whether it does."""
    if any(same_as_zero(size) for size in buffer.shape):
        return False
    return known_at_most(span.first, -1) or known_at_most(n_elements(buffer), span.last)


def n_elements(buffer: Buffer) -> Size:
    """How many elements lie from a buffer's first to its last."""
    if not buffer.layout_is_known:
        return product(buffer.shape)
    return add(span_of(0, zip(buffer.shape, buffer.stride, strict=True)).last, 1)
