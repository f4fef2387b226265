"""Attention that people write out, as one call: ``softmax(q @ k.T * scale + bias) @ v``.

A softmax over the last dimension whose argument is a product, scaled by known numbers anywhere, with biases and masks,
and whose result one other product reads: PyTorch's fused kernels compute that without writing the scores to memory.
What each step is, `scores` finds; which dimensions are whose, `dimensions`. It stays as written where somebody else
reads the scores or the weights, where dropout is drawn between, where a bias may hide all keys from a query (see
`hidden_rows`), and where no fused kernel would take the call (see `kernels`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.attention.axes import Group, Groups, ViewAxes, ViewAxis, is_followed, size_of_group
from longhand.capture.attention.biases import bias_of
from longhand.capture.attention.dimensions import Dimensions, Operand, dimensions_of
from longhand.capture.attention.hidden_rows import FedValue, HiddenRows
from longhand.capture.attention.kernels import takes_written
from longhand.capture.attention.mapping import axes_of_operand, joined, lacks_some
from longhand.capture.attention.operands import (
    Views,
    as_wanted,
    as_wanted_at,
    lies_in_rows,
    without_factor,
)
from longhand.capture.attention.scores import WrittenAttention, written_attention
from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.known.call import shape_of
from longhand.capture.known.deduction import facts_of
from longhand.capture.known.facts import Fact, Size
from longhand.capture.known.spelling import Emit, sizes_in
from longhand.capture.provenance import Provenance
from longhand.options import Target

aten = torch.ops.aten

_REMARK = "one call: scores, softmax and the sum of values"


@dataclasses.dataclass(frozen=True)
class _Setting:
    """What is the same for all that is rewritten."""

    graph: fx.Graph
    emit: Emit
    facts: Mapping[fx.Node, Fact]
    sizes: Mapping[Size, fx.Node]
    hidden: HiddenRows
    carries: Callable[[fx.Node], bool]
    machine: Target


def call_attention(
    graph: fx.Graph,
    emit: Emit,
    machine: Target,
    given: Mapping[fx.Node, FedValue],
    carries: Callable[[fx.Node], bool] = lambda _: False,
) -> None:
    """Rewrites the graph in place.

    Args:
        graph: Functional; each node has its fake value and its provenance.
        emit: Adds a call at the graph's insertion point.
        machine: What the graph is for.
        given: What feeds the placeholders.
        carries: Whether gradients flow through a node.
    """
    softmaxes = [node for node in graph.nodes if node.target is aten.softmax.int]
    if not softmaxes:
        return
    _size_once(graph)
    facts = facts_of(graph)
    setting = _Setting(graph, emit, facts, sizes_in(graph), HiddenRows(facts, given), carries, machine)
    for softmax in softmaxes:
        written = written_attention(softmax, facts)
        if written is not None and setting.hidden.is_sound(written.steps, written.dtype):
            _rewrite(setting, written)
    remove_dead_code(graph)


def _size_once(graph: fx.Graph) -> None:
    """Asks each size of the first tensor that has it: nobody reads the scores for that alone."""
    sizes = sizes_in(graph)
    for node in graph.find_nodes(op="call_function", target=aten.sym_size.int):
        first = sizes.get(torch_private.symbolic_expression(node.meta["val"]))
        if first is not None and first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _rewrite(setting: _Setting, written: WrittenAttention) -> None:
    dims = dimensions_of(written)
    if dims is None:
        return
    views = Views(setting.graph, setting.emit, setting.sizes, written.output.node)
    factor = math.prod(step.factor for step in written.steps)
    operands: list[fx.Node] = []
    for operand, positions in ((dims.query, dims.queries), (dims.key, dims.keys), (dims.value, dims.keys)):
        made, own = (operand.node, 1.0)
        if operand is not dims.value:
            made, own = without_factor(views, operand.node, setting.facts)
        whole = _four_dimensions(views, dims, dataclasses.replace(operand, node=made), positions)
        if whole is None:
            return
        if not lies_in_rows(whole):
            return  # a product reads channels that lie apart as they are; on a CPU a copy costs what one call saves
        operands.append(whole)
        factor *= own
    bias = bias_of(views, written, dims, setting.hidden)
    if bias is None or not (0 < factor < math.inf):
        return
    (mask,) = bias
    query, key, value = (one.meta["val"] for one in operands)
    is_trained = mask is not None and setting.carries(mask)
    of_mask = mask.meta["val"] if mask is not None else None
    if not takes_written((query, key, value), of_mask, is_trained, setting.machine):
        return
    masked = {} if mask is None else {"attn_mask": mask}
    attention = views.call(
        aten.scaled_dot_product_attention.default, *operands, **masked, scale=float(factor)
    )
    _replace(views, written, dims, attention)


def _four_dimensions(views: Views, dims: Dimensions, operand: Operand, positions: Group) -> fx.Node | None:
    """An operand as (batch, heads, positions, channels)."""

    def wanted(axes: ViewAxes, groups: Groups) -> list[Group | None] | None:
        of_scores = axes_of_operand(axes, groups[:-2], dims.axes, operand.leads)
        if of_scores is None:
            return None
        *_, first, second = groups
        several = (dims.batch, dims.heads)
        if any(lacks_some(of_scores, group) for group in several):
            return None
        last = (second, first) if operand.is_turned else (first, second)
        return [*(joined(axes, of_scores, group) for group in several), *last]

    made = as_wanted(views, operand.node, wanted)
    if made is None:
        return None
    leads = [size_of_group(group) for group in (dims.batch, dims.heads)]
    return views.expanded(made, [*leads, *shape_of(made)[2:]])


def _replace(views: Views, written: WrittenAttention, dims: Dimensions, attention: fx.Node) -> None:
    """Gives whoever read the last product the result of attention, at the nearest view that is it as it is."""
    axes = ViewAxes()
    own = axes.of_shape(shape_of(attention))
    of_scores: dict[ViewAxis, Group] = {}
    for group, parts in zip(own[:2], (dims.batch, dims.heads), strict=True):
        divided = axes.divided(group, [axis.size for axis in parts])
        assert divided is not None
        of_scores.update(zip(parts, divided, strict=True))
    leads = tuple(
        tuple(axis for part in dims.axes.resolved(group) for axis in of_scores[part]) for group in dims.leads
    )
    last = (own[3], own[2]) if dims.is_output_turned else (own[2], own[3])
    output = written.output.node
    seen: list[tuple[fx.Node, Groups]] = [(output, (*leads, *last))]
    while len(seen[-1][0].users) == 1 and is_followed(reader := next(iter(seen[-1][0].users))):
        found = axes.through(reader, seen[-1][1])
        if found is None:
            break
        seen.append((reader, found))
    alike = [
        view
        for view, groups in seen
        if shape_of(view) == shape_of(attention)
        and [axes.resolved(g) for g in groups] == _resolved(axes, own)
    ]
    told: Provenance = Provenance.of(output)
    place = alike[0] if alike else output
    local = told.local or Provenance.of(place).local
    attention.meta["provenance"] = dataclasses.replace(told, local=local, remark=_REMARK)
    result: fx.Node | None = attention
    if not alike:
        result = as_wanted_at(views, attention, axes, own, lambda *_: seen[0][1])
    if result is not None:
        _become(place, result)


def _become(node: fx.Node, made: fx.Node) -> None:
    """The node computes what another one does: results of the call stay the nodes that they are."""
    node.target, node.args, node.kwargs = made.target, made.args, made.kwargs
    if made.target is aten.scaled_dot_product_attention.default:
        node.meta["provenance"] = Provenance.of(made)
    if not any(user.op == "output" for user in node.users):  # a result lies as eager's does
        node.meta["val"] = made.meta["val"]
    made.graph.erase_node(made)


def _resolved(axes: ViewAxes, groups: Groups) -> list[Any]:
    return [axes.resolved(group) for group in groups]
