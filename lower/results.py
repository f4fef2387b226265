"""The end of a program: what the call returns, and what it writes back into its inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

from longhand.capture.graph import AliasKind, GraphOutput, Literal
from longhand.errors import CaptureError
from longhand.lower.context import Context
from longhand.lower.ir import BufferKind, View
from longhand.lower.layouts import eager_strides
from longhand.lower.registry import VIEWS
from longhand.lower.unsupported import LOOP_DTYPES
from longhand.lower.views import TensorView, overlaps

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
    elif output.alias is AliasKind.OUTPUT:
        value = _on_result(ctx, output, nodes, replay, value)
    elif isinstance(ctx.node.meta["val"], torch.Tensor):  # else a number that was read
        value = _fresh(ctx, value)
        ctx.values[output.value] = value
    ctx.returned.add(value.buffer)
    found = value.as_ir()
    if found is None and output.alias is AliasKind.FRESH:
        return ctx.argument(value)
    if found is None:
        raise _no_view(nodes[output.value], str(output.base))
    return found


def _fresh(ctx: Context, value: TensorView) -> TensorView:
    """The value with memory of its own, laid out as in eager."""
    laid_out = ctx.as_in_eager(value, ctx.result())
    if laid_out is value and _is_taken(ctx, value):
        return ctx.copy(value, stride=eager_strides(ctx.result()))
    return laid_out


def _on_result(
    ctx: Context, output: GraphOutput, nodes: dict[str, fx.Node], replay: Replay, value: TensorView
) -> TensorView:
    """The result as a view of an earlier result, which may have been laid out anew."""
    assert isinstance(output.base, int) and isinstance(output.value, str)
    base = ctx.graph.outputs[output.base].value
    assert isinstance(base, str)
    if value.buffer == ctx.values[base].buffer:
        return value
    return _replayed(ctx, output.value, base, frozenset({base}), nodes, replay)


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
    return _replayed(ctx, output.value, output.base, frozenset({output.base, *written}), nodes, replay)


def _replayed(
    ctx: Context,
    value: str,
    base: str,
    ends: frozenset[str],
    nodes: dict[str, fx.Node],
    replay: Replay,
) -> TensorView:
    """The views that lead from one of the nodes `ends` to the node `value`, taken of what `base` is."""
    chain: list[fx.Node] = []
    node = nodes[value]
    while node.name not in ends:
        if node.target not in VIEWS:
            raise _no_view(node, base)
        chain.append(node)
        node = node.all_input_nodes[0]
    view: TensorView = ctx.values[base]
    for node in reversed(chain):
        view = replay(ctx, node, view)
    return view


def _no_view(node: fx.Node, base: str) -> CaptureError:
    provenance = node.meta.get("provenance")
    where = f"{provenance.file}:{provenance.line}" if provenance is not None and provenance.file else None
    return CaptureError(
        f"The call returns a view of `{base}` (by {node.target}) that generated code cannot take.",
        where=where,
        hint="Return a copy of it (.clone()), or take the view outside.",
    )


def store_mutations(ctx: Context) -> None:
    """Appends the nests that write new values into inputs. All reads of old values come before."""
    targets = {entry.input_node for entry in ctx.graph.mutations}
    buffers = {ctx.values[name].buffer for name in targets}
    nodes = {node.name: node for node in ctx.graph.graph.nodes}
    pending: list[tuple[fx.Node, TensorView, TensorView]] = []
    for entry in ctx.graph.mutations:
        ctx.node = nodes[entry.value_node]
        value, into = ctx.values[entry.value_node], ctx.values[entry.input_node]
        if value == into or any(size == 0 for size in into.shape):
            continue
        if value.buffer in buffers:
            value = ctx.copy(value)
        pending.append((ctx.node, ctx.readable(value), into))
    for node, value, into in pending:
        ctx.node = node
        is_ours = not {value.buffer, into.buffer} & ctx.host_buffers
        if is_ours and value.dtype in LOOP_DTYPES and into.dtype in LOOP_DTYPES and not overlaps(into):
            ctx.write(value.expand(into.shape), into)
            continue
        reason = "The input's elements overlap, or have a type that loops do not compute in."
        ctx.copy_into(value, into, reason if is_ours else "It copies to or from the CPU.")
