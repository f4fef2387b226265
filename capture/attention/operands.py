"""Queries, keys, values and biases as attention reads them, in four dimensions, by views of the user's own.

What a product is given went through views for its sake: heads joined to the batch, keys turned. Of these views the
nearest is taken that is already as attention wants it, and only where none is, new ones are made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx

from longhand.capture.attention.axes import Group, Groups, ViewAxes, is_followed, size_of_group
from longhand.capture.attention.scores import known_factor
from longhand.capture.functionalize.view_nodes import as_it_lies
from longhand.capture.known.call import shape_of
from longhand.capture.known.facts import Fact, Size
from longhand.capture.known.spelling import Emit
from longhand.capture.provenance import Provenance

aten = torch.ops.aten

WantedOf: TypeAlias = Callable[[ViewAxes, Groups], Sequence[Group | None] | None]


@dataclasses.dataclass(frozen=True)
class Views:
    """Adds views before a node.

    Attributes:
        graph: Where.
        emit: Adds a call at the graph's insertion point.
        sizes: The nodes that symbolic sizes are.
        place: The node that they are for: all stand before it.
    """

    graph: fx.Graph
    emit: Emit
    sizes: Mapping[Size, fx.Node]
    place: fx.Node

    def call(self, target: Any, *args: Any, of: fx.Node | None = None, **kwargs: Any) -> fx.Node:
        """One call, in the words of the node that it is a view of."""
        with self.graph.inserting_before(self.place):
            node = self.emit(target, args, kwargs)
        told = Provenance.of(of if of is not None and of.op == "call_function" else self.place)
        node.meta["provenance"] = dataclasses.replace(told, local=None, remark="")
        return node

    def reshaped(self, node: fx.Node, shape: Sequence[Size]) -> fx.Node | None:
        """The node in another shape; None where the graph holds no such size."""
        if tuple(shape) == shape_of(node):
            return node
        given = self.as_arguments(shape)
        return None if given is None else self.call(aten.reshape.default, node, given, of=node)

    def permuted(self, node: fx.Node, dims: Sequence[int]) -> fx.Node:
        """The node with its dimensions in another order."""
        if list(dims) == sorted(dims):
            return node
        moved = [place for place, dim in enumerate(dims) if place != dim]
        if len(moved) == 2:
            return self.call(aten.transpose.int, node, *moved, of=node)
        return self.call(aten.permute.default, node, list(dims), of=node)

    def expanded(self, node: fx.Node, shape: Sequence[Size]) -> fx.Node | None:
        """The node repeated along dimensions of size 1."""
        if tuple(shape) == shape_of(node):
            return node
        given = self.as_arguments(shape)
        return None if given is None else self.call(aten.expand.default, node, given, of=node)

    def as_arguments(self, shape: Sequence[Size]) -> list[Any] | None:
        """Sizes as arguments of a call."""
        given = [size if isinstance(size, int) else self.sizes.get(size) for size in shape]
        is_there = all(isinstance(size, int) or (size is not None and size < self.place) for size in given)
        return given if is_there else None


def lies_in_rows(node: fx.Node) -> bool:
    """Whether a tensor's channels lie side by side, as every fused kernel reads them."""
    lies = as_it_lies(node)
    return bool(lies.shape[-1] == 1 or lies.stride(-1) == 1)


def without_factor(views: Views, node: fx.Node, facts: Mapping[fx.Node, Fact]) -> tuple[fx.Node, float]:
    """An operand before it was multiplied by a known number, and the number: attention multiplies by it anyway."""
    seen: list[fx.Node] = []
    source = node
    while (scaled := known_factor(source, facts)) is None:
        if not is_followed(source) or not isinstance(source.args[0], fx.Node):
            return node, 1.0
        seen.append(source)
        source = source.args[0]
    if len(source.users) > 1 or source.meta["val"].dtype is not scaled[0].meta["val"].dtype:
        return node, 1.0
    made = scaled[0]
    told: Provenance = Provenance.of(source)
    for view in reversed(seen):
        again = views.call(view.target, made, *view.args[1:])
        again.meta["provenance"] = Provenance.of(view)
        made = again
    if told.local and not seen and Provenance.of(made).local is None and made.op == "call_function":
        made.meta["provenance"] = dataclasses.replace(Provenance.of(made), local=told.local)
    made, factor = without_factor(views, made, facts)
    return made, factor * scaled[1]


def as_wanted(views: Views, node: fx.Node, wanted_of: WantedOf) -> fx.Node | None:
    """A tensor in other dimensions.

    Args:
        views: Adds what views it takes.
        node: The tensor.
        wanted_of: From the tensor's own dimensions, as axes, to the dimensions that are wanted; None for one that it
            does not have: of size 1.
    """
    chain = [node]
    while is_followed(chain[-1]) and isinstance(chain[-1].args[0], fx.Node):
        chain.append(chain[-1].args[0])
    axes = ViewAxes()
    groups: Groups | None = axes.of_shape(shape_of(chain[-1]))
    every = [groups]
    for view in reversed(chain[:-1]):
        groups = axes.through(view, groups) if groups is not None else None
        every.append(groups)
    if groups is None:
        return as_wanted_at(views, node, axes, axes.of_shape(shape_of(node)), wanted_of)
    wanted = wanted_of(axes, groups)
    if wanted is None:
        return None
    known = [(one, found) for one, found in zip(chain, reversed(every), strict=True) if found is not None]
    for alike in (_alike_in_order, _alike):
        for candidate, found in known:
            if (made := alike(views, candidate, axes, found, wanted)) is not None:
                return made
    return as_wanted_at(views, node, axes, groups, lambda *_: wanted)


def as_wanted_at(
    views: Views,
    node: fx.Node,
    axes: ViewAxes,
    groups: Groups,
    wanted_of: WantedOf,
) -> fx.Node | None:
    """The same of views that begin at the tensor: split, in order, joined."""
    wanted = wanted_of(axes, groups)
    if wanted is None:
        return None
    own = axes.resolved(axis for group in groups for axis in group)
    order = axes.resolved(axis for group in wanted for axis in group or ())
    if len(own) != len(order) or set(own) != set(order):
        return None
    split = views.reshaped(node, [axis.size for axis in own])
    if split is None:
        return None
    turned = views.permuted(split, [own.index(axis) for axis in order])
    return views.reshaped(turned, _sizes(axes, wanted))


def _alike_in_order(
    views: Views, node: fx.Node, axes: ViewAxes, groups: Groups, wanted: Sequence[Group | None]
) -> fx.Node | None:
    """The node itself where it has the dimensions that are wanted, but for some of size 1."""
    own = [axes.resolved(group) for group in groups]
    others = [axes.resolved(group or ()) for group in wanted]
    is_alike = [group for group in own if group] == [group for group in others if group]
    return views.reshaped(node, _sizes(axes, wanted)) if is_alike else None


def _alike(
    views: Views, node: fx.Node, axes: ViewAxes, groups: Groups, wanted: Sequence[Group | None]
) -> fx.Node | None:
    """The node with its dimensions in another order, where it has those that are wanted."""
    own = [axes.resolved(group) for group in groups]
    others = [axes.resolved(group or ()) for group in wanted]
    if len(own) != len(others):
        return None
    left = list(range(len(own)))
    dims: list[int] = []
    for group in others:
        place = next((dim for dim in left if own[dim] == group), None)
        if place is None:
            return None
        left.remove(place)
        dims.append(place)
    return views.permuted(node, dims)


def _sizes(axes: ViewAxes, wanted: Sequence[Group | None]) -> list[Size]:
    return [size_of_group(axes.resolved(group or ())) for group in wanted]
