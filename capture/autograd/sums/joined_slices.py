"""Gradients of slices that fill a tensor together are that tensor, joined: no zeros are made to be added.

Each slice's own derivative is zeros with the gradient written into them, and a value that was sliced gets the sum of
these. Where the slices are all of a dimension, the sum is a ``cat``: of `rotate_half`'s two halves, whose gradient then
reads as rotate_half does. What every n-th position was taken of (interleaved rotary positions) is a ``stack``, and so
is what was taken apart by ``select``. Adding zeros is exact, so the values are the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.autograd.sums.trees import outermost_sums, summands, sums_inside

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class _Written:
    """A gradient in zeros.

    Attributes:
        node: The scatter.
        piece: The gradient.
        dim: Along which it is a part.
        start: Its first position.
        step: How far its positions are apart; 0 for one position, which is no dimension of the gradient.
        count: How many they are.
    """

    node: fx.Node
    piece: fx.Node
    dim: int
    start: int
    step: int
    count: int


def join_slices(graph: fx.Graph) -> None:
    """Rewrites every sum of this kind, in place; nodes that are sums stay the nodes they are.

    Args:
        graph: A joint graph, with fake values in ``meta["val"]``.
    """
    for node in outermost_sums(graph):
        _join(graph, node, summands(node))
    for node in graph.nodes:
        _pad(node)


def _pad(node: fx.Node) -> None:
    """The gradient of one slice that nothing is added to is padded by zeros, which is one call."""
    written = _written(node)
    if written is None or written.step != 1:
        return
    value: torch.Tensor = node.meta["val"]
    after = value.shape[written.dim] - written.start - written.count
    pads = [0, 0] * (value.ndim - 1 - written.dim) + [written.start, after]
    node.target, node.args = aten.constant_pad_nd.default, (written.piece, pads, 0.0)


def _join(graph: fx.Graph, node: fx.Node, terms: Sequence[fx.Node]) -> None:
    written = [piece for summand in terms if (piece := _written(summand)) is not None]
    groups: list[list[_Written]] = []
    while (parts := _whole(written)) is not None:
        groups.append(parts)
        written = [part for part in written if part not in parts]
    taken = {part.node for parts in groups for part in parts}
    others = [term for term in terms if term not in taken]
    if not groups:
        return
    inside = sums_inside(node)
    with graph.inserting_before(node):
        rest = [*others, *(_joined(graph, parts) for parts in groups)]
        first = rest[0]
        for term in rest[1:-1]:
            first = _made(graph, aten.add.Tensor, (first, term), node)
    if len(rest) > 1:
        node.args = (first, rest[-1])
    else:
        node.target, node.args = first.target, first.args
        graph.erase_node(first)
    _erase(graph, [*inside, *taken])


def _written(node: fx.Node) -> _Written | None:
    """A gradient in zeros that only a sum reads, with sizes that are known."""
    if node.target not in (aten.slice_scatter.default, aten.select_scatter.default) or node.kwargs:
        return None
    zeros, piece, *numbers = node.args
    value: torch.Tensor = node.meta["val"]
    if len(node.users) > 1 or not _are_zeros(zeros) or not isinstance(piece, fx.Node):
        return None
    whole = [number for number in numbers if isinstance(number, int)]
    if not whole or len(whole) < len(numbers) or piece.meta["val"].dtype is not value.dtype:
        return None
    dim, size = whole[0] % value.ndim, value.shape[whole[0]]
    if not isinstance(size, int):
        return None
    if node.target is aten.select_scatter.default:
        return _Written(node, piece, dim, whole[1] % size, 0, 1)
    start, end, step = (*whole[1:], *(0, size, 1)[len(whole) - 1 :])
    taken = range(size)[start:end:step]
    shape = [*value.shape[:dim], len(taken), *value.shape[dim + 1 :]]
    fits = bool(taken) and list(piece.meta["val"].shape) == shape
    return _Written(node, piece, dim, taken[0], step, len(taken)) if fits else None


def _are_zeros(node: object) -> bool:
    return isinstance(node, fx.Node) and node.target is aten.full.default and bool(node.args[1] == 0)


def _whole(written: Sequence[_Written]) -> list[_Written] | None:
    """Those that are all of one dimension, each position once, in order; the first that there are."""
    for first in written:
        if first.start != 0:
            continue
        size = first.node.meta["val"].shape[first.dim]
        alike = [one for one in written if (one.dim, one.step) == (first.dim, first.step)]
        if first.step > 1:
            parts = _at(alike, range(first.step))
            is_whole = parts is not None and all(part.count * first.step == size for part in parts)
        elif first.step == 0:
            parts = _at(alike, range(size))
            is_whole = parts is not None
        else:
            parts = [first]
            while (end := parts[-1].start + parts[-1].count) < size and (next_parts := _at(alike, [end])):
                parts += next_parts
            is_whole = end == size
        if parts is not None and is_whole and len(parts) > 1:
            return parts
    return None


def _at(written: Sequence[_Written], starts: Iterable[int]) -> list[_Written] | None:
    """One that begins at each of these positions; None if one is missing."""
    by_start = {one.start: one for one in reversed(written)}
    return [by_start[start] for start in starts] if all(start in by_start for start in starts) else None


def _joined(graph: fx.Graph, parts: Sequence[_Written]) -> fx.Node:
    """The gradients as one tensor, before whatever node is inserted before."""
    first, pieces = parts[0], [part.piece for part in parts]
    if first.step == 1:
        return _made(graph, aten.cat.default, (pieces, first.dim), first.node)
    if first.step == 0:
        return _made(graph, aten.stack.default, (pieces, first.dim), first.node)
    stacked = _made(graph, aten.stack.default, (pieces, first.dim + 1), first.node)
    return _made(graph, aten.reshape.default, (stacked, list(first.node.meta["val"].shape)), first.node)


def _made(graph: fx.Graph, target: torch._ops.OpOverload, args: tuple[Any, ...], like: fx.Node) -> fx.Node:
    """A new node that belongs where another one does."""
    node = graph.call_function(target, args)
    given = fx.node.map_arg(args, lambda one: one.meta["val"])
    node.meta = {**like.meta, "val": target(*given)}
    return node


def _erase(graph: fx.Graph, nodes: Sequence[fx.Node]) -> None:
    """What only the sums needed: they, the scatters, and the zeros of these."""
    for node in nodes:
        zeros = [one for one in node.all_input_nodes if _are_zeros(one)]
        if not node.users:
            graph.erase_node(node)
            for one in zeros:
                if not one.users:
                    graph.erase_node(one)
