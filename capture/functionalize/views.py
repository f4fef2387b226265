"""The rules for views: each becomes one of a few, and can be written through.

The few are those that capture/functionalize/decompositions.py lists. A view's `take` emits it of any value of its
source; its `put` emits the source with the view's part replaced.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.decompositions import RESHAPES
from longhand.capture.functionalize.functional_graph import CannotFunctionalize
from longhand.capture.functionalize.functional_proxies import Proxy
from longhand.capture.functionalize.functionalize import Rewriter, Rule
from longhand.capture.functionalize.memory_views import MEMORY_RULES
from longhand.capture.functionalize.writes import bound

aten = torch.ops.aten


def _reshape(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    if target is aten.view.dtype:
        return _view_dtype(rewriter, target, args, kwargs, eager)
    before, after = tuple(source.fake.shape), tuple(eager.shape)
    if _are_ints(before) and before == after:
        return rewriter.same(source, eager)
    if target in (
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten._reshape_alias.default,
    ):
        sizes: Any = args[1]
    elif _are_ints(after):
        sizes = list(after)
    else:
        return NotImplemented
    return _reshaped(rewriter, source, sizes, eager)


def _reshaped(rewriter: Rewriter, source: Proxy, sizes: Any, eager: torch.Tensor) -> Proxy:
    def take(parent: fx.Node) -> fx.Node:
        return rewriter.emit(aten.reshape.default, (parent, list(sizes)), value=eager)

    return rewriter.view(source, eager, take, _shaped_as(rewriter, source))


def _shaped_as(rewriter: Rewriter, source: Proxy) -> Callable[[fx.Node, fx.Node], fx.Node]:
    """What a tensor is that one of the same elements in another shape was written to."""

    def put(parent: fx.Node, child: fx.Node) -> fx.Node:
        return rewriter.emit(aten.reshape.default, (child, _size_of(rewriter, source)), value=source.fake)

    return put


def _size_of(rewriter: Rewriter, source: Proxy) -> list[Any]:
    """The sizes of a tensor as ints and, where symbolic, nodes that compute them."""
    sizes: list[Any] = []
    for dim, size in enumerate(source.fake.shape):
        if isinstance(size, torch.SymInt):
            sizes.append(rewriter.number(aten.sym_size.int, (source, dim), {}, size))
        else:
            sizes.append(size)
    return sizes


def _view_dtype(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    if eager.dtype == source.fake.dtype:
        return rewriter.same(source, eager)
    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.view.dtype, (parent, eager.dtype), value=eager),
        lambda parent, child: rewriter.emit(aten.view.dtype, (child, source.fake.dtype), value=source.fake),
    )


def _transpose(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    name = target._schema.name.split("::")[1]
    if name in ("mH", "adjoint", "matrix_H") and source.fake.is_complex():
        return NotImplemented if name != "matrix_H" else rewriter.call(aten.mH.default, args, kwargs, eager)
    if source.fake.dim() < 2:
        return rewriter.same(source, eager)
    if name == "t":
        first, second = 0, 1
    elif name in ("mT", "mH", "adjoint", "matrix_H"):
        first, second = -2, -1
    else:
        first, second = tuple(bound(target, args, kwargs).values())[1:3]
    if first == second:
        return rewriter.same(source, eager)
    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.transpose.int, (parent, first, second), value=eager),
        lambda parent, child: rewriter.emit(aten.transpose.int, (child, first, second), value=source.fake),
    )


def _permute(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    dims = [dim % len(args[1]) for dim in args[1]]
    if dims == sorted(dims):
        return rewriter.same(source, eager)
    inverse = sorted(range(len(dims)), key=dims.__getitem__)
    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.permute.default, (parent, list(args[1])), value=eager),
        lambda parent, child: rewriter.emit(aten.permute.default, (child, inverse), value=source.fake),
    )


def _expand(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    if _are_ints(tuple(eager.shape)) and tuple(eager.shape) == tuple(source.fake.shape):
        return rewriter.same(source, eager)
    return rewriter.keep(aten.expand.default, (source, list(args[1])), {}, eager)


def _squeeze(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    given = bound(target, args, kwargs).get("dim", list(range(source.fake.dim())))
    rank = max(source.fake.dim(), 1)
    dims = [
        dim
        for dim in ([given] if isinstance(given, int) else given)
        if source.fake.dim() and isinstance(source.fake.shape[dim], int) and source.fake.shape[dim] == 1
    ]
    if not dims:
        return rewriter.same(source, eager)
    if source.fake.dim() - len({dim % rank for dim in dims}) != eager.dim():
        return NotImplemented

    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.squeeze.dims, (parent, dims), value=eager),
        _shaped_as(rewriter, source),
    )


def _unsqueeze(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]

    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.unsqueeze.default, (parent, args[1]), value=eager),
        _shaped_as(rewriter, source),
    )


def _select(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    given = bound(target, args, kwargs)
    source, dim, index = given["self"], given["dim"], given["index"]
    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.select.int, (parent, dim, index), value=eager),
        lambda parent, child: rewriter.emit(
            aten.select_scatter.default, (parent, child, dim, index), value=source.fake
        ),
    )


def _slice(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    given = bound(target, args, kwargs)
    source: Proxy = given["self"]
    dim, start, end, step = given["dim"], given["start"], given["end"], given["step"]
    whole_from = start is None or (isinstance(start, int) and start == 0)
    unbounded = end is None or (isinstance(end, int) and end >= 2**62)
    same_sizes = _are_ints(tuple(eager.shape)) and tuple(eager.shape) == tuple(source.fake.shape)
    if isinstance(step, int) and step == 1 and ((whole_from and unbounded) or same_sizes):
        return rewriter.same(source, eager)
    bounds = (dim, start, end) if isinstance(step, int) and step == 1 else (dim, start, end, step)
    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.slice.Tensor, (parent, *bounds), value=eager),
        lambda parent, child: rewriter.emit(
            aten.slice_scatter.default, (parent, child, *bounds), value=source.fake
        ),
    )


def _narrow(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source, dim, start, length = args
    if not _are_ints((start, length)):
        return NotImplemented
    if start < 0:
        start += source.fake.shape[dim]
    return _slice(rewriter, aten.slice.Tensor, (source, dim, start, start + length), {}, eager)


def _split(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    dim = bound(target, args, kwargs)["dim"]
    sizes = [part.shape[dim] for part in eager]
    if not _are_ints(tuple(sizes)):
        return NotImplemented
    split = rewriter.emit(aten.split_with_sizes.default, (source, sizes, dim), value=list(eager))
    parts = []
    for position, part in enumerate(eager):
        item = rewriter.emit(operator.getitem, (split, position), value=part)
        handle = _slice_of(rewriter, source, part, dim, sum(sizes[:position]), item)
        parts.append(handle)
    return parts


def _slice_of(
    rewriter: Rewriter, source: Proxy, part: torch.Tensor, dim: int, start: int, item: fx.Node
) -> Proxy:
    if not rewriter.share_memory(part, source.fake):
        return rewriter.fresh(item, part)
    bounds = (dim, start, start + int(part.shape[dim]))

    def take(parent: fx.Node) -> fx.Node:
        return rewriter.emit(aten.slice.Tensor, (parent, *bounds), value=part)

    def put(parent: fx.Node, child: fx.Node) -> fx.Node:
        return rewriter.emit(aten.slice_scatter.default, (parent, child, *bounds), value=source.fake)

    return Proxy(item, part, source.memory, source.memory.version, source, take, put)


def _unbind(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    given = bound(target, args, kwargs)
    source, dim = given["self"], given["dim"]
    node = rewriter.emit(aten.unbind.int, (source, dim), value=list(eager))
    parts = []
    for position, part in enumerate(eager):
        item = rewriter.emit(operator.getitem, (node, position), value=part)

        def take(parent: fx.Node, position: int = position, part: torch.Tensor = part) -> fx.Node:
            return rewriter.emit(aten.select.int, (parent, dim, position), value=part)

        def put(parent: fx.Node, child: fx.Node, position: int = position) -> fx.Node:
            return rewriter.emit(
                aten.select_scatter.default, (parent, child, dim, position), value=source.fake
            )

        parts.append(Proxy(item, part, source.memory, source.memory.version, source, take, put))
    return parts


def _diagonal(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source, *where = bound(target, args, kwargs).values()  # of linalg_diagonal, too
    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(aten.diagonal.default, (parent, *where), value=eager),
        lambda parent, child: rewriter.emit(
            aten.diagonal_scatter.default, (parent, child, *where), value=source.fake
        ),
    )


def _as_strided(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    """Reads the flat memory that eager has: an argument's own; of what lies elsewhere here, a copy laid out like it."""
    source, sizes, strides, offset = (*bound(target, args, kwargs).values(), None)[:4]
    owner = source
    while owner.parent is not None:
        owner = owner.parent
    order = memory_order_of(owner.fake)
    if order is None:
        raise CannotFunctionalize(
            "as_strided is used on a tensor whose memory has gaps or overlaps", "Use plain views."
        )
    start = (source.fake.storage_offset() if offset is None else offset) - owner.fake.storage_offset()
    layout = (sizes, strides, start)
    reach = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if start < 0 or (0 not in sizes and not reach < owner.fake.numel()):
        raise CannotFunctionalize("as_strided reaches beyond the tensor's own elements", "Use plain views.")
    carries = rewriter.gradients is not None and rewriter.read(owner) in rewriter.gradients
    if carries and source is not owner and not _is_within(source.fake, eager):
        raise CannotFunctionalize(
            "as_strided reads what the view that it is called on does not show, and autograd gives that no gradient",
            "Call it on the whole tensor.",
        )
    is_plain = order == list(range(len(order)))

    def look(parent: fx.Node) -> fx.Node:
        if parent.op != "placeholder":
            _require_known_start(owner, offset)
            return rewriter.emit(aten.as_strided.default, (laid_out(parent), *layout), value=eager)
        if offset is None:  # a later argument may begin elsewhere in its memory, so where it does is not said
            return rewriter.emit(
                aten.as_strided.default, (_taken(source, parent), sizes, strides), value=eager
            )
        flat = parent if is_plain else rewriter.emit(aten.permute.default, (parent, order))
        return rewriter.emit(aten.as_strided.default, (flat, sizes, strides, offset), value=eager)

    def laid_out(parent: fx.Node) -> fx.Node:
        flat = parent if is_plain else rewriter.emit(aten.permute.default, (parent, order))
        return rewriter.emit(aten.clone.default, (flat,), {"memory_format": torch.contiguous_format})

    def put(parent: fx.Node, child: fx.Node) -> fx.Node:
        _require_known_start(owner, offset)
        written = rewriter.emit(aten.as_strided_scatter.default, (laid_out(parent), child, *layout))
        if is_plain:
            return written
        back = [order.index(dim) for dim in range(len(order))]
        return rewriter.emit(aten.permute.default, (written, back), value=owner.fake)

    return rewriter.view(owner, eager, look, put)


def _require_known_start(owner: Proxy, offset: Any) -> None:
    """Raises where an offset counts from the start of an argument's memory, which may be another in another call."""
    if offset is not None and owner.memory.placeholder is not None:
        reason = "as_strided with a storage_offset is used on an argument that is written to"
        raise CannotFunctionalize(reason, "Leave it out: take as_strided of a part of the argument.")


def _taken(view: Proxy, owner: fx.Node) -> fx.Node:
    """The view, taken of its owner's value."""
    if view.parent is None or view.take is None:
        return owner
    return view.take(_taken(view.parent, owner))


def _is_within(outer: torch.Tensor, inner: torch.Tensor) -> bool:
    """Whether a tensor without gaps in its memory surely has every element of another."""
    first, last = _reach(outer)
    begin, end = _reach(inner)
    is_dense = bool(last - first + 1 == outer.numel())
    return inner.numel() == 0 or (is_dense and bool(first <= begin and end <= last))


def _reach(value: torch.Tensor) -> tuple[Any, Any]:
    """The first and the last place in memory."""
    start = value.storage_offset()
    steps = zip(value.shape, value.stride(), strict=True)
    return start, start + sum((size - 1) * stride for size, stride in steps)


def memory_order_of(value: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost; None if not every place of it is one element."""
    dims = list(range(value.dim()))
    if value.is_contiguous():
        return dims
    if not _are_ints((*value.shape, *value.stride())):
        return None
    strides, sizes = value.stride(), value.shape
    order = sorted(dims, key=lambda dim: (-strides[dim], -sizes[dim], dim))
    return order if value.permute(order).is_contiguous() else None


def _complex_view(rewriter: Rewriter, target: Any, args: Any, kwargs: Any, eager: Any) -> Any:
    source: Proxy = args[0]
    inverse = (
        aten.view_as_real.default if target is aten.view_as_complex.default else aten.view_as_complex.default
    )
    return rewriter.view(
        source,
        eager,
        lambda parent: rewriter.emit(target, (parent,), value=eager),
        lambda parent, child: rewriter.emit(inverse, (child,), value=source.fake),
    )


def _are_ints(sizes: tuple[Any, ...]) -> bool:
    return all(isinstance(size, int) for size in sizes)


# By packet name.
VIEW_RULES: dict[str, Rule] = {
    **dict.fromkeys(RESHAPES, _reshape),
    **dict.fromkeys(
        ["t", "mT", "mH", "adjoint", "matrix_H", "transpose", "swapaxes", "swapdims"], _transpose
    ),
    "permute": _permute,
    "expand": _expand,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "select": _select,
    "slice": _slice,
    "narrow": _narrow,
    **dict.fromkeys(
        ["split", "chunk", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"],
        _split,
    ),
    "unbind": _unbind,
    "diagonal": _diagonal,
    "linalg_diagonal": _diagonal,
    **MEMORY_RULES,
    "as_strided": _as_strided,
    "view_as_complex": _complex_view,
    "view_as_real": _complex_view,
}
