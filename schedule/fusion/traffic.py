"""Bytes that a kernel moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longhand.lower.ir import Axis, Buffer, Index, Load, Size, Store, Value, arguments, domains
from longhand.schedule.kernels.kernel_plan import Access
from longhand.schedule.sizes import plus, product, times


def accesses(body: tuple[Value, ...]) -> dict[str, Access]:
    """What is done with each buffer: those only read first, each group in order of first use.

    What is read whole comes before the positions that pick elements of it: logits before labels.
    """
    read = list(dict.fromkeys(value.buffer for value in body if isinstance(value, Load)))
    added = {value.buffer for value in body if isinstance(value, Store) and value.adds}
    for whole, positions in _picked(body):
        if read.index(positions) < read.index(whole):
            read.remove(positions)
            read.insert(read.index(whole) + 1, positions)
    written = list(dict.fromkeys(value.buffer for value in body if isinstance(value, Store)))
    access_of = {name: Access.READ for name in read if name not in written}
    access_of.update(
        {name: Access.READ_WRITE if name in read or name in added else Access.WRITE for name in written}
    )
    return access_of


def _picked(body: tuple[Value, ...]) -> list[tuple[str, str]]:
    """(a buffer that is read whole, a buffer whose values say which of its elements are read once more)."""
    loads = [value for value in body if isinstance(value, Load)]
    whole = {load.buffer for load in loads if not load.index.values}
    picks: list[tuple[str, str]] = []
    for load in loads:
        for position, _ in load.index.values if load.buffer in whole else ():
            picks += [(load.buffer, positions) for positions in _loaded_below(body, position)]
    return picks


def _loaded_below(body: tuple[Value, ...], position: int) -> list[str]:
    """The buffers that a value is computed from."""
    value = body[position]
    if isinstance(value, Load):
        return [value.buffer]
    return [buffer for argument in arguments(value) for buffer in _loaded_below(body, argument)]


def bytes_moved(body: tuple[Value, ...], axes: tuple[Axis, ...], buffers: Mapping[str, Buffer]) -> Size:
    """Bytes read and written, each element of a buffer once for reading and once for writing."""
    sizes = {axis.name: axis.size for axis in axes}
    spans = domains(body)
    touched: dict[tuple[str, bool], dict[Index, Size]] = {}
    for value in body:
        if isinstance(value, Load | Store):
            # A mask may vary over more axes than the address does.
            span = {axis for axis, _ in value.index.axes}.union(*(spans[at] for at, _ in value.index.values))
            elements = product(sizes[axis] for axis in sorted(span))
            touched.setdefault((value.buffer, isinstance(value, Store)), {})[value.index] = elements
            if isinstance(value, Store) and value.adds:
                touched.setdefault((value.buffer, False), {})[value.index] = elements
    total: Size = 0
    for (name, _), indices in touched.items():
        total = plus(total, times(_elements(buffers[name], indices.values()), buffers[name].dtype.itemsize))
    return total


def _elements(buffer: Buffer, counts: Iterable[Size]) -> Size:
    total: Size = 0
    for count in counts:
        total = plus(total, count)
    everything = product(buffer.shape)
    if isinstance(total, int) and isinstance(everything, int):
        return min(total, everything)
    return total
