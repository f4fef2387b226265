"""The end of a program: what the call returns, and what it writes back into its inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

from longhand.capture.graph import AliasKind, GraphOutput, Literal
from longhand.errors import LoweringError
from longhand.lower.context import LOOP_DTYPES, Context
from longhand.lower.ir import BufferKind, View
from longhand.lower.registry import VIEWS
from longhand.lower.views import TensorView

Replay = Callable[[Context, fx.Node, TensorView], TensorView]


def result_of(ctx: Context, output: GraphOutput, replay: Replay) -> View | Literal:
    """One leaf of the result as a view of a buffer.

    A fresh result never shares memory with what the caller has; a result that aliases an input does, even where the
    input's new value was computed into another buffer first (it is written back at the end).

    Args:
        ctx: The program, every node lowered.
        output: What the call returns.
        replay: Takes the view that a node is of another tensor.
    """
    if isinstance(output.value, Literal):
        return output.value
    value = ctx.values[output.value]
    if not isinstance(value, TensorView):
        return Literal(value)
    nodes = {node.name: node for node in ctx.graph.graph.nodes}
    ctx.node = nodes[output.value]
    if output.alias is AliasKind.INPUT:
        value = _on_input(ctx, output, nodes, replay)
    elif output.alias is AliasKind.FRESH and _is_taken(ctx, value):
        value = ctx.copy(value)
    ctx.returned.add(value.buffer)
    found = value.as_ir()
    if found is None and output.alias is AliasKind.FRESH:
        return ctx.argument(value)
    if found is None:
        raise LoweringError(
            f"The result {output.value} must alias {output.base} but is no strided view of it."
        )
    return found


def _is_taken(ctx: Context, value: TensorView) -> bool:
    buffer = ctx.buffers[value.buffer]
    return buffer.kind is not BufferKind.INTERMEDIATE or value.buffer in ctx.returned


def _on_input(ctx: Context, output: GraphOutput, nodes: dict[str, fx.Node], replay: Replay) -> TensorView:
    """The result as a view of the input that it aliases."""
    assert isinstance(output.base, str) and isinstance(output.value, str)
    base: TensorView = ctx.values[output.base]
    value: TensorView = ctx.values[output.value]
    if value.buffer == base.buffer:
        return value
    written = {entry.value_node for entry in ctx.graph.mutations if entry.input_node == output.base}
    chain: list[fx.Node] = []
    node = nodes[output.value]
    while node.name not in written and node.name != output.base:
        if node.target not in VIEWS:
            raise LoweringError(
                f"The result {output.value} is said to alias {output.base}, but {node.name} is no view."
            )
        chain.append(node)
        node = node.all_input_nodes[0]
    view = base
    for node in reversed(chain):
        view = replay(ctx, node, view)
    return view


def store_mutations(ctx: Context) -> None:
    """Appends the nests that write new values into inputs. All reads of old values come before."""
    targets = {entry.input_node for entry in ctx.graph.mutations}
    buffers = {ctx.values[name].buffer for name in targets}
    nodes = {node.name: node for node in ctx.graph.graph.nodes}
    pending: list[tuple[fx.Node, TensorView, TensorView]] = []
    for entry in ctx.graph.mutations:
        ctx.node = nodes[entry.value_node]
        value, into = ctx.values[entry.value_node], ctx.values[entry.input_node]
        if value == into:
            continue
        if value.buffer in buffers:
            value = ctx.copy(value)
        pending.append((ctx.node, ctx.readable(value), into))
    for node, value, into in pending:
        ctx.node = node
        if value.dtype in LOOP_DTYPES and into.dtype in LOOP_DTYPES and not into.overlaps:
            ctx.write(value.expand(into.shape), into)
            continue
        ctx.call(
            torch.ops.aten.copy_.default,
            (ctx.argument(into), ctx.argument(value)),
            outputs=(),
            mutates=(into.buffer,),
            reason="The input's elements overlap, or have a type that loops do not compute in.",
        )
