"""Each node of a captured graph through its lowering; what has none through ATen."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import sympy
import torch
from torch import fx

from longhand.capture.graph import READS, GraphInput, InputKind, node_depends_on_data
from longhand.errors import LoweringError
from longhand.lower.context import Context
from longhand.lower.draft import LoweringDraft
from longhand.lower.host_values import call_host, is_host_call
from longhand.lower.ir import Buffer, BufferKind, View, ViewCall
from longhand.lower.layouts import channels_last_strides, input_strides
from longhand.lower.lowerings import (
    activations,
    adding_up,
    arithmetic,
    batch_norm,
    boundary_padding,
    class_losses,
    creation,
    group_norm,
    indexing,
    joining,
    log_likelihood,
    losses,
    normalization,
    pointwise,
    pooling,
    reductions,
    viewing,
)
from longhand.lower.lowerings.externs import call_extern, call_read
from longhand.lower.lowerings.viewing import wrap
from longhand.lower.registry import LOWERINGS, VIEWS
from longhand.lower.sizes import as_number, as_size
from longhand.lower.unsupported import LOOP_DTYPES, UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView
from longhand.lower.writes.filling import written_into_filled
from longhand.lower.writes.mutation import written_in_place
from longhand.options import Device

aten = torch.ops.aten

# Importing one of these registers its lowerings.
FAMILIES = (
    activations,
    adding_up,
    arithmetic,
    batch_norm,
    class_losses,
    creation,
    group_norm,
    boundary_padding,
    indexing,
    joining,
    log_likelihood,
    losses,
    normalization,
    pointwise,
    pooling,
    reductions,
    viewing,
)

_KINDS = {
    InputKind.ARGUMENT: BufferKind.INPUT,
    InputKind.PART: BufferKind.INPUT,
    InputKind.PARAMETER: BufferKind.WEIGHT,
    InputKind.BUFFER: BufferKind.WEIGHT,
    InputKind.CONSTANT: BufferKind.CONSTANT,
}
# Maps to us, copies in eager (as_strided: of memory that lies otherwise): there are no words for them as views.
_WORDLESS = frozenset({aten.flip.default, aten.repeat.default, aten.as_strided.default})


# Whose words are a view as the result's shape.
_RESHAPING = frozenset(
    {aten.view_as.default, aten.atleast_1d.default, aten.atleast_2d.default, aten.atleast_3d.default}
)


def lower_nodes(draft: LoweringDraft) -> Context:
    """Every value of the draft's graph, and the steps that make them.

    Raises:
        LoweringError: The graph breaks a rule of `CapturedGraph`.
    """
    taken = (node.name for node in draft.graph.graph.nodes)
    is_cuda = draft.options.target.device is Device.CUDA
    ctx = Context(draft.short, draft.keeps_channels_last, taken, is_cuda=is_cuda)
    ctx.host = draft.host
    inputs = {entry.node: entry for entry in draft.graph.inputs}
    for node in draft.nodes:
        ctx.node = node
        if node.op == "placeholder":
            saved = draft.memory.get(node.name)
            given = _placeholder(ctx, inputs[node.name], saved, node.name in draft.weights)
            ctx.values[node.name] = given
            ctx.host_buffers |= {given.buffer} if node.name in ctx.host else set()
        elif node.op == "call_function":
            ctx.values[node.name] = _lower_node(ctx)
        elif node.op != "output":
            raise LoweringError(f"{node.name} is a {node.op} node; captured graphs have none.")
    return ctx


def _placeholder(
    ctx: Context, entry: GraphInput, saved: tuple[View, Buffer] | None, is_convolution_weight: bool
) -> Any:
    value = ctx.node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return _plain(value)
    shape, kind = ctx.result_shape(), _KINDS[entry.kind]
    if saved is not None:
        view, buffer = saved
        return ctx.make_buffer(
            ctx.name, value.dtype, view.shape, view.stride, kind=kind, layout_is_known=buffer.layout_is_known
        )
    if is_convolution_weight:
        # Held channels last; a convolution takes any other layout that it is given, too.
        return ctx.make_buffer(
            ctx.name, value.dtype, shape, channels_last_strides(shape), kind=kind, layout_is_known=False
        )
    return ctx.make_buffer(ctx.name, value.dtype, shape, input_strides(entry, value), kind=kind)


def _lower_node(ctx: Context) -> Any:
    node = ctx.node
    if node.target is operator.getitem:
        source, position = node.args
        assert isinstance(source, fx.Node)
        return ctx.values[source.name][position]
    value = node.meta.get("val")
    if node.target in READS:
        return call_read(ctx)
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool):
        return _plain(value)
    if not isinstance(node.target, torch._ops.OpOverload):
        raise LoweringError(f"{node.name} calls {node.target}, which is no operator overload.")
    if is_host_call(ctx) and (node.target not in VIEWS or node.target in _WORDLESS):
        return call_host(ctx)
    if node_depends_on_data(node):
        return call_extern(ctx, "Its size depends on the data.")
    args = _bind(ctx)
    if node.target in VIEWS:
        return _lower_view(ctx, args)
    written = written_in_place(ctx, args)
    if written is not None:
        return written
    lowering = LOWERINGS.get(node.target)
    if lowering is None:
        into_filled = written_into_filled(ctx, args, "")
        return into_filled if into_filled is not None else call_extern(ctx)
    n_steps, known = len(ctx.steps), set(ctx.buffers)
    try:
        return lowering(ctx, *(_readable(ctx, arg) for arg in args))
    except (UnsupportedLowering, TypeError) as error:
        if isinstance(error, TypeError) and not any(isinstance(arg, sympy.Expr) for arg in args):
            raise
        del ctx.steps[n_steps:]
        for name in set(ctx.buffers) - known:
            ctx.forget(name)
        reason = (
            str(error)
            if isinstance(error, UnsupportedLowering)
            else "It asks how large a number is that sizes decide."
        )
        into_filled = written_into_filled(ctx, args, reason)
        return into_filled if into_filled is not None else call_extern(ctx, reason or None)


def _readable(ctx: Context, value: Any) -> Any:
    """An argument with tensors of unknown layout replaced by contiguous ones, so that lowerings may map them."""
    if isinstance(value, TensorView):
        return ctx.readable(value)
    return [_readable(ctx, item) for item in value] if isinstance(value, list) else value


def _lower_view(ctx: Context, args: list[Any]) -> Any:
    """The result of a view op: an index map; of a copy where the tensor's own map does not allow it."""
    try:
        if _is_wordless(ctx, args[0]):
            require_loop_dtypes(args[0].dtype)
        elif ctx.node.target is aten.as_strided.default and args[3] is not None:
            raise UnsupportedLowering(
                "Its offset counts from where the argument's memory begins, which may be before it."
            )
        return replay_view(ctx, ctx.node, args[0], args[1:])
    except UnsupportedLowering as decline:
        return call_extern(ctx, str(decline))
    except LoweringError:
        if all(isinstance(size, int) for size in (*args[0].shape, *ctx.result_shape())):
            raise
        return call_extern(ctx, "Its symbolic sizes do not factor.")


def _is_wordless(ctx: Context, x: TensorView) -> bool:
    """Whether there are no words for the node's view of `x`; as_strided says it of an argument's own memory."""
    target = ctx.node.target
    is_given = ctx.buffers[x.buffer].kind is BufferKind.INPUT and x.calls is not None
    return target in _WORDLESS and not (target is aten.as_strided.default and is_given)


def replay_view(ctx: Context, node: fx.Node, x: TensorView, rest: list[Any] | None = None) -> TensorView:
    """The view that `node` is, taken of `x` instead of its own argument."""
    assert isinstance(node.target, torch._ops.OpOverload)
    before, ctx.node = ctx.node, node
    try:
        args = _bind(ctx)[1:] if rest is None else rest
        wordless = _is_wordless(ctx, x)
        source = ctx.readable(x) if wordless else x
        view: TensorView | None = VIEWS[node.target](ctx, source, *args)
        if view is None:
            source = ctx.copy(x)
            view = VIEWS[node.target](ctx, source, *args)
        if view is None:
            raise LoweringError(f"{node.name}: {node.target} of a contiguous tensor is no index map.")
        if view is source or wordless:
            return view
        if view.strides() is None and ctx.buffers[view.buffer].layout_is_known and view.dtype in LOOP_DTYPES:
            return (
                view  # eager's own tensor may be laid out so that it can be seen this way: ours has no words
            )
        call = dataclasses.replace(_view_call(ctx, node.target, args, view), origin=node.name)
        return view.said(source, call)
    finally:
        ctx.node = before


def _view_call(ctx: Context, target: torch._ops.OpOverload, args: list[Any], view: TensorView) -> ViewCall:
    """How a person would write the view."""
    if (
        target in (aten.view.default, aten._unsafe_view.default)
        and not ctx.buffers[view.buffer].layout_is_known
    ):
        target = aten.reshape.default
    if target in (aten._unsafe_view.default, aten._reshape_alias.default):
        return ViewCall(aten.view.default, (args[0],))
    if target is aten.numpy_T.default:
        return ViewCall(aten.permute.default, (tuple(range(len(view.shape) - 1, -1, -1)),))
    if target in _RESHAPING:
        return ViewCall(aten.view.default, (view.shape,))
    if target in (aten.expand_as.default, aten.broadcast_to.default):
        return ViewCall(aten.expand.default, (view.shape,))
    if target is aten.slice.Tensor:
        args = [wrap(args[0], len(view.shape)), *args[1:]]  # a subscript counts from the first dimension
    defaults = [argument.default_value for argument in target._schema.arguments[1:]]
    while args and args[-1] == defaults[len(args) - 1]:
        args = args[:-1]
    return ViewCall(target, tuple(tuple(arg) if isinstance(arg, list) else arg for arg in args))


def _bind(ctx: Context) -> list[Any]:
    """The node's arguments in the order of its schema, defaults filled in, nodes replaced by their values."""
    node = ctx.node
    assert isinstance(node.target, torch._ops.OpOverload)
    bound = []
    for position, argument in enumerate(node.target._schema.arguments):
        value: Any = argument.default_value
        if argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        elif position < len(node.args) and not argument.kwarg_only:
            value = node.args[position]
        bound.append(_resolve(ctx, value))
    return bound


def _resolve(ctx: Context, value: Any) -> Any:
    if isinstance(value, fx.Node):
        return ctx.values[value.name]
    if isinstance(value, list | tuple):
        return [_resolve(ctx, item) for item in value]
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, torch.SymFloat):
        return as_number(value)
    return as_size(value) if isinstance(value, torch.SymInt) else value
