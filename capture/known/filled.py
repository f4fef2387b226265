"""Memory that is made empty and then filled part by part is what its parts are, side by side.

``states = x.new_empty(...); states[..., :n].copy_(a); states[..., n:].copy_(b)`` is ``torch.cat([a, b], -1)``: a graph
of functions has a copy with a part replaced for each write, which would read memory that nothing was written into.
Where the parts are not all there is, what nobody wrote is 0, a number as good as any other, which no kernel reads.
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

_FILL = aten.slice_scatter.default
_FILLS = (_FILL, aten.select_scatter.default)
_EMPTY = (aten.empty.memory_format,)  # what the others have become


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


def fill_parts(graph: fx.Graph, emit: Emit) -> None:
    """Rewrites the graph in place; its results stay the same nodes.

    Args:
        graph: Functional; each node has its fake value and its provenance.
        emit: Adds a call at the graph's insertion point.
    """
    _join(graph, emit)
    for node in list(graph.nodes):
        if node.target in _EMPTY and all(_is_filled(node, user) for user in node.users):
            value: torch.Tensor = node.meta["val"]
            with graph.inserting_before(node):
                zeros = emit(
                    aten.full.default, (node.args[0], 0), {"dtype": value.dtype, "device": value.device}
                )
            zeros.meta["provenance"] = Provenance.of(node)
            node.replace_all_uses_with(zeros)
    remove_dead_code(graph)


def _is_filled(node: fx.Node, user: fx.Node) -> bool:
    return user.target in _FILLS and user.args[0] is node and user.args[1] is not node


def _join(graph: fx.Graph, emit: Emit) -> None:
    for node in list(graph.nodes):
        if node.target is not _FILL or any(_continues(user, node) for user in node.users):
            continue
        dim, parts, base = _chain(node)
        if not parts or not _are_all(parts, shape_of(node)[dim]):
            continue
        with graph.inserting_before(node):
            joined = emit(aten.cat.default, ([part.source for part in parts], dim), {})
        if _looks(joined) != _looks(node):
            continue  # eager's memory is contiguous, and has a type of its own; a join is as its parts are
        told: Provenance = Provenance.of(node)
        made: Provenance = Provenance.of(base)
        joined.meta["provenance"] = dataclasses.replace(told, local=told.local or made.local)
        node.replace_all_uses_with(joined, delete_user_cb=lambda user: user.op != "output")
    remove_dead_code(graph)


def _looks(node: fx.Node) -> Any:
    value: torch.Tensor = node.meta["val"]
    return tuple(value.shape), value.stride(), value.dtype, value.device


def _continues(user: fx.Node, node: fx.Node) -> bool:
    """Whether a user fills another part of what a node filled one of."""
    return user.target is _FILL and user.args[0] is node and _given(user)["dim"] == _given(node)["dim"]


def _chain(node: fx.Node) -> tuple[int, list[FilledPart], fx.Node]:
    """The dimension, the parts in order, and what was empty; no parts where something else was there before."""
    wanted, parts = _given(node)["dim"], []
    while node.target is _FILL and _given(node)["dim"] == wanted:
        part = _part(node)
        if part is None:
            return wanted, [], node
        parts.append(part)
        node = node.all_input_nodes[0]
    return wanted, sorted(parts, key=lambda part: part.start) if node.target in _EMPTY else [], node


def _part(node: fx.Node) -> FilledPart | None:
    """What a call fills; None where its ends are no numbers, or there are gaps in it."""
    given, size = _given(node), shape_of(node)[_given(node)["dim"]]
    start, end = given["start"] or 0, size if given["end"] is None else given["end"]
    if not all(isinstance(one, int) for one in (start, end, size)) or given["step"] != 1:
        return None
    first, last = (min(max(one + size * (one < 0), 0), size) for one in (start, end))
    return FilledPart(first, last, given["src"])


def _given(node: fx.Node) -> dict[str, Any]:
    """What a call is given, by name; the dimension counted from the first one."""
    given: dict[str, Any] = {argument.name: argument.default_value for argument in _FILL._schema.arguments}
    given |= dict(zip(given, node.args, strict=False)) | node.kwargs
    given["dim"] %= len(shape_of(node))
    return given


def _are_all(parts: list[FilledPart], size: object) -> bool:
    """Whether the parts are all there is, each once."""
    ends = [0, *(part.end for part in parts)]
    return ends[-1] == size and all(part.start == end for part, end in zip(parts, ends, strict=False))
