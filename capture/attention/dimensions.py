"""Which dimensions of two products are attention's: what is looked at by each query of each head of each batch.

Axes are those of the scores, as their product makes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from torch import fx

from longhand.capture.attention.axes import Group, Groups, ViewAxes, ViewAxis, is_followed
from longhand.capture.attention.scores import BatchedProduct, WrittenAttention
from longhand.capture.known.call import shape_of


@dataclasses.dataclass(frozen=True)
class Operand:
    """What a product is given.

    Attributes:
        node: The tensor.
        leads: The dimensions before the last two of what the product makes.
        is_turned: Channels come before positions.
    """

    node: fx.Node
    leads: Groups
    is_turned: bool


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """What attention's dimensions are made of.

    Attributes:
        axes: Of the scores.
        batch: The first dimension of attention.
        heads: The second one.
        queries: The third one, of queries and results.
        keys: That of keys and values.
        query: The left of the two operands of the scores, if they are not turned.
        key: The other one.
        value: What the weights are multiplied with.
        steps: For each step to the softmax: the dimensions of its result.
        leads: The first dimensions of the output.
        is_output_turned: The output has channels before positions.
    """

    axes: ViewAxes
    batch: Group
    heads: Group
    queries: Group
    keys: Group
    query: Operand
    key: Operand
    value: Operand
    steps: tuple[Groups, ...]
    leads: Groups
    is_output_turned: bool


def dimensions_of(written: WrittenAttention) -> Dimensions | None:
    """None where the products are no attention: what is summed over are no keys, or another head's."""
    axes = ViewAxes()
    shape = shape_of(written.scores.node)
    at: Groups | None = axes.of_shape(shape)
    assert at is not None
    *leads, rows, columns = at
    steps: list[Groups] = []
    for step in written.steps:
        at = axes.through(step.node, at) if is_followed(step.node) else at
        if at is None:
            return None
        steps.append(at)
    of_softmax = at
    for view in written.views:
        at = axes.through(view, at) if is_followed(view) else at
        if at is None:
            return None
    *out_leads, first, second = at
    weights = written.views[-1] if written.views else written.softmax
    is_left = written.output.left is weights
    keys = axes.resolved(of_softmax[-1])
    looking, summed = (first, second) if is_left else (second, first)
    is_swapped = keys != axes.resolved(columns)
    queries = axes.resolved(columns if is_swapped else rows)
    if not keys or keys != axes.resolved(rows if is_swapped else columns) or axes.resolved(summed) != keys:
        return None
    several, of_output = _flat(axes, leads), _flat(axes, out_leads)
    if axes.resolved(looking) != queries or len(several) != len(of_output) or set(several) != set(of_output):
        return None
    if shape_of(weights)[:-2] != shape_of(written.output.node)[:-2]:
        return None
    operands = _operands(written.scores, tuple(leads), is_swapped)
    value = Operand(written.output.right, tuple(out_leads), False)
    if not is_left:
        value = Operand(written.output.left, tuple(out_leads), True)
    batch, heads = _halves(axes, several, queries, of_softmax, tuple(leads))
    return Dimensions(
        axes, batch, heads, queries, keys, *operands, value, tuple(steps), tuple(out_leads), not is_left
    )


def _operands(product: BatchedProduct, leads: Groups, is_swapped: bool) -> tuple[Operand, Operand]:
    left, right = Operand(product.left, leads, False), Operand(product.right, leads, True)
    return (right, left) if is_swapped else (left, right)


def _halves(
    axes: ViewAxes, several: Group, queries: Group, of_softmax: Groups, leads: Groups
) -> tuple[Group, Group]:
    """Batch and heads as the user has them, where there are two such dimensions."""
    for groups in (of_softmax[:-2], leads):
        if len(groups) == 2 and _flat(axes, groups) == several:
            return axes.resolved(groups[0]), axes.resolved(groups[1])
    return (several[:-1], several[-1:]) if len(several) > 1 else (several, ())


def _flat(axes: ViewAxes, groups: Sequence[Group]) -> tuple[ViewAxis, ...]:
    return axes.resolved(axis for group in groups for axis in group)
