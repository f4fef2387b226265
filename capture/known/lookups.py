"""Rows of a table at known positions are a slice of it: ``wpe(arange(seq))`` is ``wpe.weight[:seq]``.

So its derivative is a sum over what the rows were broadcast to, and no rows are added up at positions that are data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from longhand.capture.known.call import shape_of
from longhand.capture.known.facts import AffineValue, Fact
from longhand.capture.known.spelling import Spelling

aten = torch.ops.aten


def sliced(spelling: Spelling, facts: Mapping[fx.Node, Fact]) -> fx.Node | None:
    """The slice that a lookup is; None where its positions are data, or are not neighbours in order.

    Args:
        spelling: Adds calls in place of the lookup.
        facts: What is known of the graph's values.
    """
    lookup = _table_and_positions(spelling.node)
    fact = facts.get(lookup[1]) if lookup is not None else None
    if lookup is None or not isinstance(fact, AffineValue):
        return None
    table, positions = lookup
    shape, (n_rows, *rest) = shape_of(positions), shape_of(table)
    steps = fact.value.steps
    dims = [dim for dim, (step, size) in enumerate(zip(steps, shape, strict=True)) if step and size != 1]
    sizes = (*shape, n_rows, fact.value.offset, *rest)
    if len(dims) != 1 or steps[dims[0]] != 1 or not all(isinstance(size, int) for size in sizes):
        return None
    begin, count = fact.value.offset, shape[dims[0]]
    end: Any = begin + count
    if 0 in shape or not 0 <= begin < end <= n_rows:
        return None
    rows = table if end - begin == n_rows else spelling.call(aten.slice.Tensor, table, 0, begin, end)
    ones = [count if dim == dims[0] else 1 for dim in range(len(shape))]
    seen = rows if len(ones) == 1 else spelling.call(aten.reshape.default, rows, [*ones, *rest])
    whole = spelling.expanded(seen)
    # A table is the user's: what stands for the rows of all of it has the lookup's name all the same.
    return None if whole is None or whole is table else spelling.named(whole)


def _table_and_positions(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    match node.target, node.args, node.kwargs:
        case aten.embedding.default, (fx.Node() as table, fx.Node() as positions, *rest), {}:
            # The row of padding gets no gradient, and scaled or sparse gradients are no plain sums.
            is_plain = all(one is False or (one == -1 and type(one) is int) for one in rest)  # 0 == False
            return (table, positions) if is_plain else None
        case aten.index.Tensor, (fx.Node() as table, [fx.Node() as positions]), {}:
            is_mask = positions.meta["val"].dtype is torch.bool
            return None if is_mask else (table, positions)
    return None
