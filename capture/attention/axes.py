"""What each dimension of a view is made of: the axes of the tensor at the beginning of a chain of views.

A reshape that joins dimensions makes one of several axes, one that splits a dimension splits an axis; a dimension of
size 1 is made of none. So einsum's way to a batched product and back, with its dimensions of size 1 that come and go,
is seen to change nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import sympy
import torch
from torch import fx

from longhand.capture.functionalize.decompositions import RESHAPES, packet_name
from longhand.capture.known.call import shape_of
from longhand.capture.known.facts import Size


@dataclasses.dataclass(frozen=True, eq=False)
class ViewAxis:
    """A part of a dimension; each is only equal to itself."""

    size: Size


Group: TypeAlias = tuple[ViewAxis, ...]  # a dimension, outermost axis first
Groups: TypeAlias = tuple[Group, ...]  # the dimensions of a tensor

_REORDERED = frozenset({"unsqueeze", "squeeze"}) | RESHAPES


def is_followed(node: fx.Node) -> bool:
    """Whether a node is a view with the same elements as what it shows, each once."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    name = packet_name(target)
    return name in _REORDERED or name in ("permute", "transpose")


class ViewAxes:
    """Follows axes through views; an axis that a view splits is split in all that was followed before."""

    def __init__(self) -> None:
        self._parts: dict[ViewAxis, Group] = {}

    def of_shape(self, shape: Iterable[Size]) -> Groups:
        """A new axis for each dimension."""
        return tuple(() if size == 1 else (ViewAxis(size),) for size in shape)

    def resolved(self, group: Iterable[ViewAxis]) -> Group:
        """The axes of a dimension as they are split by now."""
        return tuple(part for axis in group for part in self._resolved_axis(axis))

    def _resolved_axis(self, axis: ViewAxis) -> Group:
        parts = self._parts.get(axis)
        return (axis,) if parts is None else self.resolved(parts)

    def through(self, node: fx.Node, groups: Groups) -> Groups | None:
        """The dimensions of a view of what has those; None where an axis cannot be followed."""
        target = node.target
        assert isinstance(target, torch._ops.OpOverload)
        name, rank = packet_name(target), len(groups)
        if name == "permute":
            dims: Any = node.args[1]
            return tuple(groups[dim % rank] for dim in dims)
        if name == "transpose":
            first, second = (int(dim) % rank for dim in node.args[1:3])  # type: ignore[arg-type]
            order = list(groups)
            order[first], order[second] = order[second], order[first]
            return tuple(order)
        return self.divided([axis for group in groups for axis in group], shape_of(node))

    def divided(self, axes: Iterable[ViewAxis], sizes: Sequence[Size]) -> Groups | None:
        """The axes, in order, as dimensions of these sizes."""
        waiting = list(self.resolved(axes))
        groups = [self._taken(waiting, size) for size in sizes]
        known = [group for group in groups if group is not None]
        return tuple(known) if len(known) == len(groups) and not waiting else None

    def _taken(self, waiting: list[ViewAxis], size: Size) -> Group | None:
        """The first axes, as many as make a dimension of that size."""
        taken: list[ViewAxis] = []
        while size != 1:
            if not waiting:
                return None
            axis = waiting.pop(0)
            if (rest := _quotient(size, axis.size)) is not None:
                taken.append(axis)
                size = rest
                continue
            inner = _quotient(axis.size, size)
            if inner is None:
                return None
            parts = (ViewAxis(size), ViewAxis(inner))
            self._parts[axis] = parts
            taken.append(parts[0])
            waiting.insert(0, parts[1])
            size = 1
        return tuple(taken)


def _quotient(size: Size, by: Size) -> Size | None:
    """One size divided by another; None where that is no whole number for all that they may be."""
    if isinstance(size, int) and isinstance(by, int):
        return size // by if by > 0 and size % by == 0 else None
    quotient = sympy.cancel(sympy.sympify(size) / by)
    if not quotient.is_polynomial() or not all(number.is_Integer for number in quotient.atoms(sympy.Number)):
        return None
    return int(quotient) if quotient.is_Integer else quotient


def size_of_group(group: Iterable[ViewAxis]) -> Size:
    """How many elements a dimension of these axes has."""
    size: Size = 1
    for axis in group:
        size = size * axis.size
    return size
