"""Writes into part of a tensor that the call changes anyway: they go to where it lies.

In a captured graph every write makes a new tensor: ``cache[:, :, position] = k`` is a whole new cache, and at the end
it is copied over the old one. Where nothing reads the old content after the write, it goes to the input itself, and a
key-value cache costs what is written into it.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph
from longhand.lower.body import Size
from longhand.lower.context import Context
from longhand.lower.ir import BufferKind
from longhand.lower.lowerings.externs import extern_argument
from longhand.lower.lowerings.viewing import slice_start, wrap
from longhand.lower.sizes import add
from longhand.lower.unsupported import LOOP_DTYPES, UnsupportedLowering
from longhand.lower.views import TensorView, overlaps
from longhand.lower.writes.writing import write_at_positions

aten = torch.ops.aten

# A new tensor with a part replaced, and the view that the part is.
_PARTS = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
}
# The same with positions that are data: what ATen does in place.
TWINS = {
    aten.index_put.default: aten.index_put_.default,
    aten.index_copy.default: aten.index_copy_.default,
    aten.index_add.default: aten.index_add_.default,
    aten.index_fill.int_Scalar: aten.index_fill_.int_Scalar,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.scatter_add.default: aten.scatter_add_.default,
    aten.scatter_reduce.two: aten.scatter_reduce_.two,
    aten.masked_scatter.default: aten.masked_scatter_.default,
}


def written_in_place(ctx: Context, args: list[Any]) -> TensorView | None:
    """The node's result as the input that it has just been written into; None if that may not be.

    Args:
        ctx: The program and the node.
        args: The node's arguments in the order of its schema.
    """
    node = ctx.node
    if node.target not in _PARTS and node.target not in TWINS:
        return None
    base: TensorView = args[0]
    if node.target in _PARTS and _is_there(ctx, base, args):
        return base
    if not _may_be_overwritten(ctx, base):
        return None
    try:
        written = _write_part(ctx, base, args) if node.target in _PARTS else _call_twin(ctx, base, args)
    except UnsupportedLowering:
        return None
    if not written:
        return None
    ctx.forget_content(base.buffer)
    return base


def _is_there(ctx: Context, base: TensorView, args: list[Any]) -> bool:
    """Whether the part that the node puts into a tensor is what lies in its place: the write before it went there."""
    source, part = args[1], _part(ctx, base, args)
    return part is not None and (source.buffer, source.dims, source.offset) == (
        base.buffer,
        part.dims,
        part.offset,
    )


def _write_part(ctx: Context, base: TensorView, args: list[Any]) -> bool:
    source: TensorView = args[1]
    part = _part(ctx, base, args)
    if part is None or source.dtype not in LOOP_DTYPES or base.dtype not in LOOP_DTYPES or part.is_empty:
        return False
    if source.buffer == base.buffer:
        return False  # read where it would be overwritten
    ctx.write(source, part)
    return True


def _part(ctx: Context, base: TensorView, args: list[Any]) -> TensorView | None:
    """The part of the base that the node replaces."""
    dim = wrap(args[2], base.rank)
    if ctx.node.target is aten.select_scatter.default:
        index: Size = args[3]
        if not isinstance(index, int):
            return None
        return base.select(dim, add(index, base.size(dim)) if index < 0 else index)
    start, step, length = args[3], args[5], args[1].size(dim)
    return base.narrow(dim, slice_start(base.size(dim), start, length), length, step)


def _call_twin(ctx: Context, base: TensorView, args: list[Any]) -> bool:
    node, into = ctx.node, base.as_ir()
    if into is None or any(view.buffer == base.buffer for view in _tensors(args[1:])):
        return False
    with contextlib.suppress(UnsupportedLowering):
        write_at_positions(ctx, base, args)
        return True
    assert isinstance(node.target, torch._ops.OpOverload)
    rest = tuple(extern_argument(ctx, argument) for argument in node.args[1:])
    kwargs = {name: extern_argument(ctx, argument) for name, argument in node.kwargs.items()}
    ctx.call(TWINS[node.target], (into, *rest), kwargs, outputs=(), mutates=(base.buffer,))
    return True


def _tensors(value: Any) -> list[TensorView]:
    if isinstance(value, TensorView):
        return [value]
    return [view for item in value for view in _tensors(item)] if isinstance(value, list | tuple) else []


def _may_be_overwritten(ctx: Context, base: TensorView) -> bool:
    """Whether the tensor lies in an input that the call changes, and nothing reads its old content any more."""
    buffer = ctx.buffers[base.buffer]
    if buffer.kind not in (BufferKind.INPUT, BufferKind.WEIGHT) or not buffer.layout_is_known:
        return False
    changed = {
        view.buffer
        for entry in ctx.graph.mutations
        if isinstance(view := ctx.values[entry.input_node], TensorView)
    }
    shared = {name for group in ctx.graph.shared_storage for name in group}
    if base.buffer not in changed - shared or overlaps(base):
        return False
    lasting = _lasting(ctx.graph)
    holders = [
        node
        for node in ctx.graph.graph.nodes
        if any(_may_meet(view, base) for view in _tensors(ctx.values.get(node.name)))
    ]
    put_back = _puts_back(ctx)
    return all(
        holder.name not in lasting
        and all(
            user is ctx.node
            or user in put_back
            or user.name in ctx.values
            or _reads_size(user)
            or _selects_beside(user, ctx.values.get(holder.name), base)
            for user in holder.users
        )
        for holder in holders
    )


def _may_meet(view: TensorView, base: TensorView) -> bool:
    """Whether a view may show an element of another: not if all of it lies before that, or behind."""
    if view.buffer != base.buffer:
        return False
    one, other = _span(view), _span(base)
    return one is None or other is None or (one[0] < other[1] and other[0] < one[1])


def _selects_beside(user: fx.Node, held: Any, base: TensorView) -> bool:
    """Whether a node that comes later takes a part of what is held that is none of the base."""
    if user.target is not aten.select.int or user.kwargs or not isinstance(held, TensorView):
        return False
    dim, place = user.args[1:3]
    if not isinstance(dim, int) or not isinstance(place, int):
        return False
    dim = wrap(dim, held.rank)
    part = held.select(dim, add(place, held.size(dim)) if place < 0 else place)
    return part is not None and not _may_meet(part, base)


def _span(view: TensorView) -> tuple[int, int] | None:
    """The first place in memory that a view shows, and the one after the last; None where that is not known."""
    atoms = [atom for dim in view.dims for atom in dim]
    numbers = [view.offset, *(number for atom in atoms for number in (atom.size, atom.step))]
    if not all(isinstance(number, int) for number in numbers) or view.is_empty:
        return None
    reaches = [int(atom.step) * (int(atom.size) - 1) for atom in atoms]
    first = int(view.offset) + sum(reach for reach in reaches if reach < 0)
    return first, int(view.offset) + sum(reach for reach in reaches if reach > 0) + 1


def _lasting(graph: CapturedGraph) -> set[Any]:
    """The nodes whose values are wanted when the call ends."""
    return {output.value for output in graph.outputs} | {entry.value_node for entry in graph.mutations}


def _reads_size(user: fx.Node) -> bool:
    return isinstance(user.meta.get("val"), torch.SymInt | int)


def _puts_back(ctx: Context) -> set[fx.Node]:
    """The later nodes that put what the node makes of a view back to where the view was taken from, again and again.

    ``cache[0, :, a:b] = k`` writes into a view of a view: the write is followed by two of these, which then have
    nothing to do.
    """
    later_nodes: set[fx.Node] = set()
    view, new = ctx.node.args[0], ctx.node
    while isinstance(view, fx.Node) and view.args:
        back = next((user for user in new.users if _is_back(ctx, user, view, new)), None)
        if back is None:
            break
        later_nodes.add(back)
        view, new = view.args[0], back
    return later_nodes


def _is_back(ctx: Context, user: fx.Node, view: fx.Node, new: fx.Node) -> bool:
    is_scatter = user.target in _PARTS and _PARTS[user.target] is view.target
    if not is_scatter or user.args[1] is not new or _from_first(user, 2) != _from_first(view, 1):
        return False
    # What the view was taken of may have been written into since, beside the view: it lies where it lay.
    into, taken = user.args[0], view.args[0]
    if not isinstance(into, fx.Node) or not isinstance(taken, fx.Node):
        return False
    return into is taken or _lie_alike(ctx.values.get(into.name), ctx.values.get(taken.name))


def _lie_alike(one: Any, other: Any) -> bool:
    if not isinstance(one, TensorView) or not isinstance(other, TensorView):
        return False
    return (one.buffer, one.dims, one.offset) == (other.buffer, other.dims, other.offset)


def _from_first(node: fx.Node, first: int) -> dict[str, Any]:
    """The node's arguments from a place on, by name, with defaults."""
    assert isinstance(node.target, torch._ops.OpOverload)
    arguments = {}
    for place, argument in enumerate(node.target._schema.arguments[first:], first):
        given = node.kwargs.get(argument.name, argument.default_value)
        arguments[argument.name] = node.args[place] if place < len(node.args) else given
    return arguments
