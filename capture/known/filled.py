"""Memory that is made empty and then filled part by part is what its parts are, side by side.

``states = x.new_empty(...); states[..., :n].copy_(a); states[..., n:].copy_(b)`` is ``torch.cat([a, b], -1)``: as a
chain of writes into a copy each it would read memory that nothing was written into.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.known.call import shape_of
from longhand.capture.known.spelling import Emit
from longhand.capture.provenance import Provenance

aten = torch.ops.aten

_EMPTY = (aten.empty.memory_format, aten.new_empty.default, aten.empty_like.default)


@dataclasses.dataclass(frozen=True)
class FilledPart:
    """What a part is filled with.

    Attributes:
        start: Where along the dimension it begins.
        end: And ends.
        source: The node.
    """

    start: int
    end: int
    source: fx.Node


def join_parts(graph: fx.Graph, emit: Emit) -> None:
    """Rewrites the graph in place; its results stay the same nodes.

    Args:
        graph: Functional; each node has its fake value and its provenance.
        emit: Adds a call at the graph's insertion point.
    """
    for node in list(graph.nodes):
        if node.target is not aten.slice_scatter.default or any(
            _continues(user, node) for user in node.users
        ):
            continue
        dim, parts, base = _chain(node)
        if not parts or not _covers(parts, shape_of(node)[dim]):
            continue
        with graph.inserting_before(node):
            joined = emit(aten.cat.default, ([part.source for part in parts], dim), {})
        if joined.meta["val"].stride() != node.meta["val"].stride():
            continue  # eager's memory is contiguous, that of a join lies as its parts do
        told: Provenance = node.meta.get("provenance", Provenance())
        made: Provenance = base.meta.get("provenance", Provenance())
        joined.meta["provenance"] = dataclasses.replace(told, local=told.local or made.local)
        node.replace_all_uses_with(joined, delete_user_cb=lambda user: user.op != "output")
    remove_dead_code(graph)


def _continues(user: fx.Node, node: fx.Node) -> bool:
    """Whether a user fills another part of what a node filled one of."""
    return user.target is aten.slice_scatter.default and user.args[0] is node and _dim(user) == _dim(node)


def _chain(node: fx.Node) -> tuple[int, list[FilledPart], fx.Node]:
    """The dimension, the parts in order, and what was empty; no parts where something else was there before."""
    dim, parts = _dim(node), []
    while node.target is aten.slice_scatter.default and _dim(node) == dim:
        base, source = node.args[:2]
        bounds = _bounds(node, shape_of(node)[dim])
        if not isinstance(base, fx.Node) or not isinstance(source, fx.Node) or bounds is None:
            return dim, [], node
        parts.append(FilledPart(*bounds, source))
        node = base
    return dim, sorted(parts, key=lambda part: part.start) if node.target in _EMPTY else [], node


def _bounds(node: fx.Node, size: Any) -> tuple[int, int] | None:
    """Where a part begins and ends; None where that is no number, or the part has gaps."""
    given = (
        [*node.args[3:], *(None, None, 1)[len(node.args) - 3 :]] if len(node.args) > 2 else [None, None, 1]
    )
    start, end, step = given
    start, end = 0 if start is None else start, size if end is None else end
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(size, int) or step != 1:
        return None
    first, last = (min(max(one + size * (one < 0), 0), size) for one in (start, end))
    return first, last


def _dim(node: fx.Node) -> int:
    given = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
    return int(given) % len(shape_of(node))  # type: ignore[arg-type]


def _covers(parts: list[FilledPart], size: object) -> bool:
    """Whether the parts are all there is, each once."""
    ends = [0, *(part.end for part in parts)]
    return ends[-1] == size and all(part.start == end for part, end in zip(parts, ends, strict=False))
