"""Rewriting bodies: new positions, other axes, one body after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from longhand.lower.ir import (
    Axis,
    AxisSize,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    Reduce,
    Size,
    Store,
    Value,
    domains,
)
from longhand.schedule.once import once_for
from longhand.schedule.sizes import plus, times

Pieces = Mapping[str, tuple[Axis, ...]]


def make_index(
    offset: Size, axes: Iterable[tuple[str, Size]], values: Iterable[tuple[int, Size]] = ()
) -> Index:
    """An index in normal form: terms of one axis (or value) added up, sorted, none with coefficient 0."""
    by_axis: dict[str, Size] = {}
    for axis, coefficient in axes:
        by_axis[axis] = plus(by_axis.get(axis, 0), coefficient)
    by_value: dict[int, Size] = {}
    for position, coefficient in values:
        by_value[position] = plus(by_value.get(position, 0), coefficient)
    return Index(
        offset,
        tuple(sorted((axis, coefficient) for axis, coefficient in by_axis.items() if coefficient != 0)),
        tuple(sorted((value, coefficient) for value, coefficient in by_value.items() if coefficient != 0)),
    )


def substitute(index: Index, replacement: Mapping[str, Index]) -> Index:
    """The index with axes replaced by affine expressions; axes not in `replacement` stay."""
    if not any(axis in replacement for axis, _ in index.axes):
        return index
    offset = index.offset
    axes: list[tuple[str, Size]] = []
    values: list[tuple[int, Size]] = list(index.values)
    for axis, coefficient in index.axes:
        inner = replacement.get(axis)
        if inner is None:
            axes.append((axis, coefficient))
            continue
        offset = plus(offset, times(coefficient, inner.offset))
        axes += [(name, times(coefficient, factor)) for name, factor in inner.axes]
        values += [(value, times(coefficient, factor)) for value, factor in inner.values]
    return make_index(offset, axes, values)


def rewrite(
    value: Value,
    positions: Sequence[int] | Mapping[int, int],
    index_of: Callable[[Index], Index] = lambda index: index,
    axes_of: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda axes: axes,
) -> Value:
    """The value with its arguments at new positions and its axes replaced.

    `index_of` sees the index with its values already renumbered.
    """
    # Most values of most rewrites stay as they are; `dataclasses.replace` takes several times as long as what it calls.
    match value:
        case Load():
            mask = None if value.mask is None else positions[value.mask]
            index = index_of(_renumber(value.index, positions))
            if mask == value.mask and index is value.index:
                return value
            return Load(value.buffer, index, value.dtype, mask, value.other, value.name, value.origin)
        case Store():
            mask = None if value.mask is None else positions[value.mask]
            index, stored = index_of(_renumber(value.index, positions)), positions[value.value]
            if mask == value.mask and index is value.index and stored == value.value:
                return value
            return Store(value.buffer, index, stored, mask, value.name, value.origin, value.adds)
        case IndexExpression():
            index = index_of(_renumber(value.index, positions))
            is_same = index is value.index
            return value if is_same else IndexExpression(index, value.dtype, value.name, value.origin)
        case AxisSize():
            axes = axes_of(value.axes)
            return value if axes == value.axes else AxisSize(axes, value.dtype, value.name, value.origin)
        case Pointwise():
            args = tuple([positions[arg] for arg in value.args])
            if args == value.args:
                return value
            return Pointwise(value.op, args, value.dtype, value.narrow, value.name, value.origin)
        case Reduce():
            argument, axes = positions[value.arg], axes_of(value.axes)
            if argument == value.arg and axes == value.axes:
                return value
            return Reduce(value.op, argument, axes, value.dtype, value.name, value.origin)
    return value


def split_axes(nest: Nest, pieces: Pieces) -> Nest:
    """The nest with each axis in `pieces` replaced by its pieces, outermost first (one piece: a renaming)."""
    replacement: dict[str, Index] = {}
    for name, parts in pieces.items():
        coefficient: Size = 1
        terms: list[tuple[str, Size]] = []
        for part in reversed(parts):
            terms.append((part.name, coefficient))
            coefficient = times(coefficient, part.size)
        replacement[name] = make_index(0, terms)

    def axes_of(axes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            part for axis in axes for part in ([p.name for p in pieces[axis]] if axis in pieces else [axis])
        )

    identity = range(len(nest.body))
    axes = tuple(part for axis in nest.axes for part in pieces.get(axis.name, (axis,)))
    body = tuple(
        rewrite(value, identity, lambda index: substitute(index, replacement), axes_of) for value in nest.body
    )
    return Nest(axes, body)


@once_for
def loads(nest: Nest) -> tuple[tuple[int, Load], ...]:
    """The loads of a nest with their positions."""
    return tuple((position, value) for position, value in enumerate(nest.body) if isinstance(value, Load))


@once_for
def stores(nest: Nest) -> tuple[tuple[int, Store], ...]:
    """The stores of a nest with their positions."""
    return tuple((position, value) for position, value in enumerate(nest.body) if isinstance(value, Store))


def without_stores(nest: Nest, dropped: Callable[[Store], bool]) -> Nest:
    """The nest without the stores that `dropped` picks; what only they needed is left for cleaning."""
    positions: dict[int, int] = {}
    body: list[Value] = []
    for position, value in enumerate(nest.body):
        if not (isinstance(value, Store) and dropped(value)):
            positions[position] = len(body)
            body.append(rewrite(value, positions))
    return Nest(nest.axes, tuple(body))


@once_for
def reduced_axes(nest: Nest) -> frozenset[str]:
    """All axes that some reduction of the nest removes."""
    return frozenset(axis for value in nest.body if isinstance(value, Reduce) for axis in value.axes)


@once_for
def sizes_of(nest: Nest) -> Mapping[str, Size]:
    """The size of each axis."""
    return {axis.name: axis.size for axis in nest.axes}


@once_for
def domains_of(nest: Nest) -> tuple[frozenset[str], ...]:
    """For each value of a nest's body, the axes that it varies over."""
    return domains(nest.body)


def origins(body: Iterable[Value]) -> tuple[str, ...]:
    """The nodes of the captured graph that a body computes, each once, in order of appearance."""
    return tuple(dict.fromkeys(value.origin for value in body if value.origin))


def _renumber(index: Index, positions: Sequence[int] | Mapping[int, int]) -> Index:
    if not index.values:
        return index
    return make_index(index.offset, index.axes, ((positions[value], c) for value, c in index.values))
