"""Reads of a part beside the one that was written are reads of what there was before.

``freqs = table[0]; freqs[...] = table[1][...]; freqs[...] = table[2][...]`` writes into `table`, of which `freqs` is a
view. Without this, every later read of another row would keep alive a whole copy of the table in which nothing that
is read has changed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

aten = torch.ops.aten

_WRITES = (aten.select_scatter.default, aten.slice_scatter.default, aten.index_put.default)


def read_beside_writes(graph: fx.Graph, carries: Callable[[fx.Node], bool] = lambda _: False) -> None:
    """Lets each ``select`` of a row that a ``select_scatter`` before it did not write read what was written into.

    Args:
        graph: Functional.
        carries: Whether gradients flow through a node: what was written beside has a gradient of zeros.
    """
    for node in graph.nodes:
        while (before := _before_write(node)) is not None and not carries(node.args[0].args[1]):
            node.replace_input_with(node.args[0], before)


def _before_write(node: fx.Node) -> fx.Node | None:
    """The value that holds the same row as the written one; None where the row was written, or that is not known.

    What the caller gave stays out: it is written in place where nothing reads its old content any more.
    """
    if node.target is not aten.select.int:
        return None
    written, dim, position = node.args
    if not isinstance(written, fx.Node) or written.target is not aten.select_scatter.default:
        return None
    before, _, written_dim, written_position = written.args
    if not isinstance(before, fx.Node) or _is_given(before) or written.kwargs:
        return None
    old, new = before.meta["val"], written.meta["val"]
    places = dim, written_dim, position, written_position
    if not all(isinstance(place, int) for place in places) or old.stride() != new.stride():
        return None
    size = old.shape[dim]
    is_beside = isinstance(size, int) and position % size != written_position % size  # type: ignore[operator]
    return before if dim % old.ndim == written_dim % old.ndim and is_beside else None


def _is_given(node: fx.Node) -> bool:
    """Whether it is what the caller gave, before or after writes into its parts."""
    while node.target in _WRITES and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node.op == "placeholder"
