"""Axes that all accesses treat as one become one, and what nothing uses goes: the body that a kernel is made of.

Two axes are one if in every index the outer's coefficient is the inner's times the inner's size (or both are absent),
and every reduction and extent takes both or neither.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

from longhand.lower.ir import (
    Axis,
    AxisSize,
    Constant,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    Reduce,
    ReduceOp,
    Scalar,
    Size,
    Store,
    Value,
    arguments,
)
from longhand.schedule.sizes import same, times

POSITIONAL = (ReduceOp.ARGMAX, ReduceOp.ARGMIN)


def reduced_axes(body: tuple[Value, ...]) -> frozenset[str]:
    """The axes that some reduction removes."""
    return frozenset(axis for value in body if isinstance(value, Reduce) for axis in value.axes)


def coefficient(index: Index, axis: str) -> Size:
    """The coefficient of an axis; 0 where it is absent."""
    return next((factor for name, factor in index.axes if name == axis), 0)


def collapse_axes(nest: Nest, least: int = 1) -> Nest:
    """The nest over as few axes as possible, but `least`."""
    merged = True
    while merged and len(nest.axes) > least:
        merged = False
        for outer, inner in itertools.permutations(nest.axes, 2):
            if _are_one(outer, inner, nest.body):
                nest = _merge(nest, outer, inner)
                merged = True
                break
    return nest


def without_dead_values(body: tuple[Value, ...]) -> tuple[Value, ...]:
    """The body without values that nothing uses; equal Scalars become one."""
    stands_for: dict[int, int] = {}
    first: dict[Scalar, int] = {}
    for position, value in enumerate(body):
        if isinstance(value, Scalar):
            stands_for[position] = first.setdefault(dataclasses.replace(value, origin=""), position)
    body = tuple(with_arguments(value, lambda position: stands_for.get(position, position)) for value in body)
    used: set[int] = set()
    for position in range(len(body) - 1, -1, -1):
        if isinstance(body[position], Store):
            used.add(position)
        if position in used:
            used.update(arguments(body[position]))
    number = {position: count for count, position in enumerate(sorted(used))}
    return tuple(with_arguments(body[position], number.__getitem__) for position in sorted(used))


def with_arguments(value: Value, rename: Callable[[int], int]) -> Value:
    """The value with the positions that it refers to renamed."""
    match value:
        case Load():
            mask = None if value.mask is None else rename(value.mask)
            return dataclasses.replace(value, index=_with_values(value.index, rename), mask=mask)
        case Pointwise():
            return dataclasses.replace(value, args=tuple(rename(argument) for argument in value.args))
        case Reduce():
            return dataclasses.replace(value, arg=rename(value.arg))
        case Store():
            mask = None if value.mask is None else rename(value.mask)
            index = _with_values(value.index, rename)
            return dataclasses.replace(value, index=index, value=rename(value.value), mask=mask)
        case Constant() | Scalar() | IndexExpression() | AxisSize():
            return value


def _with_values(index: Index, rename: Callable[[int], int]) -> Index:
    values = tuple((rename(position), factor) for position, factor in index.values)
    return dataclasses.replace(index, values=values)


def _are_one(outer: Axis, inner: Axis, body: tuple[Value, ...]) -> bool:
    for value in body:
        match value:
            case Load() | Store() | IndexExpression():
                steps = coefficient(value.index, outer.name), coefficient(value.index, inner.name)
                if steps != (0, 0) and (0 in steps or not same(steps[0], times(steps[1], inner.size))):
                    return False
            case AxisSize():
                if (outer.name in value.axes) != (inner.name in value.axes):
                    return False
            case Reduce():
                if (outer.name in value.axes) != (inner.name in value.axes):
                    return False
                if value.op in POSITIONAL and outer.name in value.axes:
                    place = value.axes.index(outer.name)
                    if value.axes[place + 1 : place + 2] != (inner.name,):
                        return False
    return True


def _merge(nest: Nest, outer: Axis, inner: Axis) -> Nest:
    taken = {axis.name for axis in nest.axes}
    name = f"{outer.name}_{inner.name}"
    while name in taken:
        name += "_"
    one = Axis(name, times(outer.size, inner.size))

    def index(old: Index) -> Index:
        axes = [entry for entry in old.axes if entry[0] not in (outer.name, inner.name)]
        if step := coefficient(old, inner.name):
            axes.append((name, step))
        return dataclasses.replace(old, axes=tuple(sorted(axes, key=lambda entry: entry[0])))

    def names(old: tuple[str, ...]) -> tuple[str, ...]:
        if outer.name not in old:
            return old
        return tuple(name if axis == outer.name else axis for axis in old if axis != inner.name)

    body: list[Value] = []
    for value in nest.body:
        match value:
            case Load() | Store() | IndexExpression():
                body.append(dataclasses.replace(value, index=index(value.index)))
            case AxisSize() | Reduce():
                body.append(dataclasses.replace(value, axes=names(value.axes)))
            case _:
                body.append(value)
    axes = tuple(one if axis == outer else axis for axis in nest.axes if axis != inner)
    return Nest(axes, tuple(body))
