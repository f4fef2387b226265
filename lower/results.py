"""The end of a program: what the call returns, and what it writes back into its inputs."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import AliasKind, GraphOutput, Literal
from longhand.errors import CaptureError
from longhand.lower.context import Context
from longhand.lower.ir import BufferKind, Derivation, View, ViewCall
from longhand.lower.layouts import eager_strides, has_strides
from longhand.lower.lowerings.externs import extern_argument
from longhand.lower.registry import VIEWS
from longhand.lower.sizes import as_size
from longhand.lower.unsupported import LOOP_DTYPES
from longhand.lower.views import TensorView, as_strided, overlaps

aten = torch.ops.aten
Replay = Callable[[Context, fx.Node, TensorView], TensorView]


class Unmapped(enum.Enum):
    """What becomes of a result that is a view of an input and no index map: another type, a conjugate."""

    REFUSED = "refused"
    CALLED = "called"  # ATen's own call gives a tensor with the input's memory
    SAID = "said"  # training takes it of what the caller gave, where autograd sees it: words are all it needs


def result_of(
    ctx: Context,
    output: GraphOutput,
    nodes: Mapping[str, fx.Node],
    replay: Replay,
    *,
    unmapped: Unmapped = Unmapped.REFUSED,
    is_saved: bool = False,
) -> View | Literal:
    """One leaf of the result as a view of a buffer.

    A fresh result never shares memory with what the caller has; a result that aliases an input does, even where the
    input's new value was computed into another buffer first (it is written back at the end).

    Args:
        ctx: The program, every node lowered.
        output: What the call returns.
        nodes: The graph's, by name: looked up for every output, of which training has as many as tensors it saves.
        replay: Takes the view that a node is of another tensor.
        unmapped: What becomes of a view of an input that no index map tells.
        is_saved: Whether it is returned for the backward pass alone.
    """
    if isinstance(output.value, Literal):
        return output.value
    value = ctx.values[output.value]
    if not isinstance(value, TensorView):
        return Literal(value)
    ctx.node = nodes[output.value]
    if output.alias is AliasKind.INPUT:
        value = _on_input(ctx, output, nodes, replay, unmapped)
    elif output.alias is AliasKind.OUTPUT:
        value = _on_result(ctx, output, nodes, replay, value, unmapped)
    elif isinstance(ctx.node.meta["val"], torch.Tensor):  # else a number that was read
        value = _kept(ctx, value) if is_saved else _fresh(ctx, value)
        ctx.values[output.value] = value
    ctx.returned.add(value.buffer)
    described = value.as_ir()
    if described is None and output.alias is AliasKind.FRESH:
        return ctx.argument(value)
    if described is None:
        raise _no_view(nodes[output.value], str(output.base))
    return described


def _fresh(ctx: Context, value: TensorView) -> TensorView:
    """The value with memory of its own, laid out as in eager; the gradient of a filter as the filter is."""
    if _is_gradient_of_filter(ctx.node) and not _is_taken(ctx, value):
        return value
    laid_out = ctx.as_in_eager(value, ctx.result())
    if laid_out is value and _is_taken(ctx, value):
        return ctx.copy(value, stride=eager_strides(ctx.result()))
    return laid_out


def _is_gradient_of_filter(node: fx.Node) -> bool:
    source = node.args[0] if node.target is operator.getitem else None
    return (
        isinstance(source, fx.Node)
        and source.target is torch.ops.aten.convolution_backward.default
        and node.args[1:] == (1,)
    )


def _kept(ctx: Context, value: TensorView) -> TensorView:
    """What the backward pass reads: all of a buffer as it lies, which it is told; else a part as in eager."""
    buffer = ctx.buffers[value.buffer]
    is_all = buffer.layout_is_known and not value.calls and has_strides(value, buffer.stride)
    is_all = is_all and value.shape == buffer.shape and not _is_taken(ctx, value)
    return value if is_all else _fresh(ctx, value)


def _on_result(
    ctx: Context,
    output: GraphOutput,
    nodes: Mapping[str, fx.Node],
    replay: Replay,
    value: TensorView,
    unmapped: Unmapped,
) -> TensorView:
    """The result as a view of an earlier result, which may have been laid out anew."""
    assert isinstance(output.base, int) and isinstance(output.value, str)
    base = ctx.graph.outputs[output.base].value
    assert isinstance(base, str)
    whole: TensorView = ctx.values[base]
    is_said = unmapped is Unmapped.SAID  # of what the Function returns: words for a view of it
    if value.buffer == whole.buffer and not (is_said and not _says_more(value, whole)):
        return value
    beside = _beside(nodes[output.value], nodes[base], whole)
    if beside is not None:
        return beside
    view = _view_of(ctx, nodes[output.value], base, _same_values(nodes[base]), replay, unmapped)
    if is_said and (view.buffer != whole.buffer or not _says_more(view, whole)):
        raise _no_view(nodes[output.value], base)
    return view


def _beside(node: fx.Node, base: fx.Node, whole: TensorView) -> TensorView | None:
    """The view of an earlier result that was no step to it (``return y.T, y``); None if that has not all its memory."""
    seen, of = node.meta["val"], base.meta["val"]
    if _root(node) is not _root(base) or base in _path(node) or _read_as(seen) != _read_as(of):
        return None
    place = seen.storage_offset() - of.storage_offset()
    layout = (*seen.shape, *seen.stride(), *of.shape, *of.stride(), place)
    if not all(isinstance(number, int) for number in layout) or not has_strides(whole, of.stride()):
        return None
    if place < 0 or eager_strides(of) is None or not seen.numel():
        return None
    last = sum((size - 1) * stride for size, stride in zip(seen.shape, seen.stride(), strict=True))
    if place + last >= of.numel():
        return None
    shape, strides = tuple(map(as_size, seen.shape)), tuple(map(as_size, seen.stride()))
    order = None if place else _order(of, seen)
    call = (
        ViewCall(aten.as_strided.default, (shape, strides, place))
        if order is None
        else ViewCall(aten.permute.default, (order,))
    )
    return as_strided(whole, shape, strides, whole.offset + place).said(whole, call)


def _read_as(value: torch.Tensor) -> tuple[torch.dtype, bool, bool]:
    """What a tensor makes of the bytes in its memory."""
    return value.dtype, value.is_conj(), value.is_neg()


def _order(of: torch.Tensor, seen: torch.Tensor) -> tuple[int, ...] | None:
    """By which permutation of its dimensions one tensor is another; None if by none."""
    left = list(range(of.dim()))
    order = []
    for side in zip(seen.shape, seen.stride(), strict=True):
        found = next((dim for dim in left if (of.shape[dim], of.stride(dim)) == side), None)
        if found is None:
            return None
        left.remove(found)
        order.append(found)
    return None if left else tuple(order)


def _path(node: fx.Node) -> list[fx.Node]:
    """A node and what it looks at, up to what has memory of its own."""
    path = [node]
    while _looks(path[-1]) and path[-1].all_input_nodes:
        path.append(path[-1].all_input_nodes[0])
    return path


def _root(node: fx.Node) -> fx.Node:
    return _path(node)[-1]


def _same_values(node: fx.Node) -> frozenset[str]:
    """The node and what it is a copy of: eager's result has the memory of one, and capture may view the other."""
    names = {node.name}
    while node.target is torch.ops.aten.clone.default:
        node = node.all_input_nodes[0]
        names.add(node.name)
    return frozenset(names)


def _says_more(view: TensorView, whole: TensorView) -> bool:
    """Whether the words for a view begin with those for another one: it can be taken of that."""
    return (
        view.calls is not None and whole.calls is not None and view.calls[: len(whole.calls)] == whole.calls
    )


def _is_taken(ctx: Context, value: TensorView) -> bool:
    buffer = ctx.buffers[value.buffer]
    return buffer.kind is not BufferKind.INTERMEDIATE or value.buffer in ctx.returned


def _on_input(
    ctx: Context, output: GraphOutput, nodes: Mapping[str, fx.Node], replay: Replay, unmapped: Unmapped
) -> TensorView:
    """The result as a view of the input that it aliases."""
    assert isinstance(output.base, str) and isinstance(output.value, str)
    base: TensorView = ctx.values[output.base]
    value: TensorView = ctx.values[output.value]
    if value.buffer == base.buffer:
        return value
    written = {entry.value_node for entry in ctx.graph.mutations if entry.input_node == output.base}
    ends = frozenset({output.base, *written})
    return _view_of(ctx, nodes[output.value], output.base, ends, replay, unmapped)


def _view_of(
    ctx: Context, node: fx.Node, base: str, ends: frozenset[str], replay: Replay, unmapped: Unmapped
) -> TensorView:
    """The calls that lead from one of the nodes `ends` to a node, taken of what `base` is: index maps, or ATen's."""
    chain = _chain(node, ends)
    unknown = next((one for one in chain if one.target not in VIEWS), None)
    is_reached = (
        bool(chain) and chain[0].all_input_nodes[:1] != [] and chain[0].all_input_nodes[0].name in ends
    )
    copying = next((one for one in chain if not _looks(one)), None if is_reached else next(iter(chain), None))
    is_taken = is_reached and unmapped is not Unmapped.REFUSED
    if (refused := copying or (None if is_taken else unknown)) is not None:
        raise _no_view(refused, base)
    view: TensorView = ctx.values[base]
    if unknown is not None:
        return _called(ctx, chain, view) if unmapped is Unmapped.CALLED else _said(ctx, chain, view, base)
    for one in chain:
        view = replay(ctx, one, view)
    return view


def _looks(node: fx.Node) -> bool:
    """Whether a call may give a view of its argument: none with memory of its own may stand for one."""
    target = node.target
    if target is operator.getitem or target in VIEWS:
        return True
    if not isinstance(target, torch._ops.OpOverload):
        return False
    # An op that ATen makes of others (atleast_1d) does not say so.
    made_of_others: Any = (
        "CompositeImplicitAutograd"  # torch takes the name; the type that it declares is private
    )
    is_implicit = target.has_kernel_for_dispatch_key(made_of_others)
    return is_implicit or any(one.alias_info is not None for one in target._schema.returns)


def _chain(node: fx.Node, ends: frozenset[str]) -> list[fx.Node]:
    """The calls that lead from one of the nodes `ends` to a node, the first one first."""
    chain: list[fx.Node] = []
    while node.name not in ends and node.all_input_nodes:
        chain.append(node)
        node = node.all_input_nodes[0]
    return chain[::-1]


def _called(ctx: Context, chain: list[fx.Node], base: TensorView) -> TensorView:
    """What ATen's own calls make of an input, one after the other: tensors that look at its memory."""
    made: list[TensorView] = [base]
    for node in chain:
        ctx.node = node
        is_part = node.target is operator.getitem
        made = [made[int(str(node.args[1]))]] if is_part else _call_on(ctx, node, made[0])
    return made[0]


_OF_TORCH = (torch.ops.aten.view_as_real.default, torch.ops.aten.view_as_complex.default)


def _said(ctx: Context, chain: list[fx.Node], view: TensorView, base: str) -> TensorView:
    """The words for a chain of methods, on an index map that nobody reads."""
    for node in chain:
        target = node.target
        if any(user.target is operator.getitem for user in node.users):
            continue  # what it gives is several: each part has words of its own
        if target is operator.getitem:
            shape, strides = (
                map(as_size, sizes) for sizes in (node.meta["val"].shape, node.meta["val"].stride())
            )
            for call in _part(node, base):
                view = as_strided(view, tuple(shape), tuple(strides), 0).said(view, call)
            continue
        name = target._schema.name.partition("::")[2] if isinstance(target, torch._ops.OpOverload) else ""
        is_known = hasattr(torch.Tensor, name.strip("_")) or node.target in _OF_TORCH
        value = node.meta["val"]
        is_one = isinstance(value, torch.Tensor) and len(node.all_input_nodes) == 1
        if not is_known or node.kwargs or not is_one:
            raise _no_view(node, base)
        shape, strides = map(as_size, value.shape), map(as_size, value.stride())
        assert isinstance(target, torch._ops.OpOverload)
        call = ViewCall(target, tuple(map(_plain, node.args[1:])))
        view = as_strided(view, tuple(shape), tuple(strides), 0).said(view, call)
    return view


def _part(node: fx.Node, base: str) -> Iterator[ViewCall]:
    """The words for one of several parts of a tensor (split, unbind): a slice of it, or one position."""
    several, number = node.args
    assert isinstance(several, fx.Node) and isinstance(number, int)
    if len(several.all_input_nodes) > 1 or several.kwargs:
        raise _no_view(several, base)
    target: Any = several.target
    whole = torch.empty(several.all_input_nodes[0].meta["val"].shape, device="meta")
    part = target(whole, *several.args[1:])[number]
    if part.dim() < whole.dim():  # unbind
        yield ViewCall(aten.select.int, ((*several.args[1:], 0)[0], number), origin=node.name)
        return
    for dim in range(whole.dim()):
        if part.shape[dim] != whole.shape[dim]:
            start = part.storage_offset() // whole.stride(dim)
            yield ViewCall(aten.slice.Tensor, (dim, start, start + part.shape[dim]), origin=node.name)


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _call_on(ctx: Context, node: fx.Node, given: TensorView) -> list[TensorView]:
    """The results of a call on another tensor instead of its own first one."""
    own = node.all_input_nodes[0]

    def argument(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(map(argument, value))
        return ctx.argument(given) if value is own else extern_argument(ctx, value)

    args = tuple(map(argument, node.args))
    kwargs = {name: argument(value) for name, value in node.kwargs.items()}
    values = node.meta["val"]
    made = [
        ctx.derive(
            Derivation.SEEN,
            node.name,
            value.dtype,
            tuple(map(as_size, value.shape)),
            tuple(map(as_size, value.stride())),
            layout_is_known=False,
        )
        for value in (values if isinstance(values, list | tuple) else [values])
    ]
    assert isinstance(node.target, torch._ops.OpOverload)
    outputs = tuple(view.buffer for view in made)
    ctx.call(node.target, args, kwargs, outputs=outputs, reason="It looks at the argument's own memory.")
    return made


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
