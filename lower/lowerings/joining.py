"""cat, stack, pad, roll and the scatters of slices: every element of the result comes from one of a few places.

A few pieces become one nest: each is loaded under the mask of its own range, and a `where` picks. So they fuse into
what reads them (rotary embeddings). A piece that is itself an elementwise intermediate is computed in place. Many
pieces become one nest each, storing into their part of the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import fx

from longhand.capture.graph import Role, is_view
from longhand.lower.body import Size
from longhand.lower.builder import Handle, Number, converted
from longhand.lower.context import Context
from longhand.lower.ir import BufferKind
from longhand.lower.lowerings.boundary_padding import rolled
from longhand.lower.lowerings.viewing import slice_start, wrap, wrap_all
from longhand.lower.nest import Coordinate, NestBuilder
from longhand.lower.program_builder import DeferredProducer
from longhand.lower.registry import lowers
from longhand.lower.sizes import add, multiply, same
from longhand.lower.unsupported import UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView, whole

aten = torch.ops.aten

_JOINS = frozenset({aten.cat.default, aten.concat.default, aten.slice_scatter.default})
# More pieces than this are stored one by one.
_MOST_MASKED = 4
# Padding of a row by less than this part of it is stored by itself.
_SEAM_SHARE = 64


@dataclasses.dataclass(frozen=True)
class Piece:
    """What fills positions `start` to `end` of one dimension of a result.

    Attributes:
        views: What is read for it, each of the piece's shape.
        producer: How its value follows from them; None: it is the one view.
        start: Its first position.
        end: One past its last.
    """

    views: tuple[TensorView, ...]
    producer: DeferredProducer | None
    start: Size
    end: Size


def piece_of(ctx: Context, x: TensorView, start: Size, dim: int) -> Piece:
    """A piece that holds a whole tensor; if that is an elementwise intermediate, what it is computed from."""
    end = add(start, x.size(dim))
    producer = ctx.deferred_producers.get(x.buffer)
    if producer is not None and x.dims == whole(ctx.buffers[x.buffer]).dims and x.offset == 0:
        return Piece(producer.views, producer, start, end)
    return Piece((x,), None, start, end)


def shifted_views(ctx: Context, piece: Piece, dim: int, size: Size) -> list[TensorView]:
    """The piece's views as maps of the whole dimension of the result."""
    views = []
    for view in piece.views:
        shifted = view.shifted(dim, piece.start, size)
        if shifted is None:
            # Laid out anew it is what it was: the join comes behind it.
            given = (one.name for one in ctx.node.all_input_nodes if ctx.values.get(one.name) == view)
            copy = ctx.copy(ctx.readable(view), origin=next(given, ""))
            shifted = copy.shifted(dim, piece.start, size)
        assert shifted is not None
        views.append(shifted)
    return views


def joined(ctx: Context, pieces: Sequence[Piece], dim: int) -> TensorView:
    """The node's result out of pieces that fill one dimension in order."""
    target = ctx.make_result(like=[view for piece in pieces for view in piece.views])
    shape = target.shape
    shifted = [[ctx.readable(view) for view in piece.views] for piece in pieces]
    pieces = [
        dataclasses.replace(piece, views=tuple(views)) for piece, views in zip(pieces, shifted, strict=True)
    ]
    groups = [shifted_views(ctx, piece, dim, shape[dim]) for piece in pieces]
    nest, fitted = ctx.nest(shape, [view for views in groups for view in views])
    remaining = iter(fitted)
    at = nest.position(dim)
    is_halved = len(pieces) == 2 and same(shape[dim], multiply(pieces[0].end, 2))
    word = Role.HALF if is_halved else Role.BOUNDARY
    limits = [nest.body.scalar(piece.end, torch.int64, word) for piece in pieces[:-1]]
    before = [(at < limit).named(Role.IN_FIRST_HALF if is_halved else None) for limit in limits]
    values: list[Handle] = []
    for i, (piece, views) in enumerate(zip(pieces, groups, strict=True)):
        mask = _within(before, i)
        side = _side(pieces, i) if is_halved and len(views) == 1 else None
        loaded = [nest.load(next(remaining), mask, name=side) for _ in views]
        value = loaded[0] if piece.producer is None else piece.producer.compute(nest, loaded)
        values.append(value.to(ctx.result().dtype))
    chosen = values[-1]
    for condition, value in zip(reversed(before), reversed(values[:-1]), strict=True):
        chosen = nest.body.where(condition, value, chosen)
    nest.store(target, chosen.named(ctx.local))
    ctx.finish(nest)
    return target


def _side(pieces: Sequence[Piece], place: int) -> Role | None:
    """What a half is read from, where both are halves of one tensor: ``cat([-second, first])``."""
    if not pieces[1 - place].views:
        return None  # a fill
    mine, other = pieces[place].views[0], pieces[1 - place].views[0]
    if mine.buffer != other.buffer or not isinstance(mine.offset, int) or not isinstance(other.offset, int):
        return (Role.LEFT, Role.RIGHT)[place]
    return Role.SECOND_HALF if mine.offset > other.offset else Role.FIRST_HALF


def _within(before: Sequence[Handle], piece: int) -> Handle:
    """The mask of a piece: past the earlier boundary and before its own."""
    if piece == 0:
        return before[0]
    past = ~before[piece - 1]
    return past if piece == len(before) else past & before[piece]


@lowers(aten.cat.default, aten.concat.default)
def _cat(ctx: Context, tensors: Sequence[TensorView], dim: int) -> TensorView:
    # Eager skips the legacy empty tensor of shape (0,).
    parts = [x for x in tensors if not (x.rank == 1 and x.is_empty and len(ctx.result_shape()) != 1)]
    require_loop_dtypes(ctx.result().dtype, *(x.dtype for x in parts))
    dim = wrap(dim, len(ctx.result_shape()))
    return _joined_in_order(ctx, [x for x in parts if not x.is_empty], dim)


def _joined_in_order(ctx: Context, parts: Sequence[TensorView], dim: int) -> TensorView:
    if not parts:
        raise UnsupportedLowering("Joining nothing is left to ATen.")
    start: Size = 0
    pieces = []
    for x in parts:
        pieces.append(piece_of(ctx, x, start, dim))
        start = pieces[-1].end
    if len(pieces) == 1:
        return ctx.pointwise([parts[0]], lambda x: x)
    twice = _twice(ctx, parts, pieces[0], dim)
    if twice is not None:
        return twice
    if _are_computed_alike(ctx, parts, pieces):
        return _computed_side_by_side(ctx, parts, pieces, dim)
    if len(pieces) <= _MOST_MASKED:
        return joined(ctx, pieces, dim)
    return _stored_one_by_one(ctx, parts, pieces, dim)


def _are_computed_alike(ctx: Context, parts: Sequence[TensorView], pieces: Sequence[Piece]) -> bool:
    """Whether the pieces, ``(x1 * c - x2 * s, x2 * c + x1 * s)``, are as large, and their whole is a piece itself.

    A row of one join alone is walked by its halves. In a join of joins each place would be asked twice which piece it
    is in, and all that the pieces are made of with it.
    """
    return _is_joined_again(ctx.node) and all(
        piece.producer is not None
        and len({view.buffer for view in piece.views}) > 1
        and all(ctx.buffers[view.buffer].kind is BufferKind.INTERMEDIATE for view in piece.views)
        and all(same(one, other) for one, other in zip(x.shape, parts[0].shape, strict=True))
        for x, piece in zip(parts, pieces, strict=True)
    )


def _is_joined_again(node: fx.Node) -> bool:
    """Whether a value becomes a piece of something else that is joined."""
    return any(user.target in _JOINS or (is_view(user) and _is_joined_again(user)) for user in node.users)


def _computed_side_by_side(
    ctx: Context, parts: Sequence[TensorView], pieces: Sequence[Piece], dim: int
) -> TensorView:
    """One nest over a piece's places that stores each piece into its part of the result."""
    target = ctx.make_result(like=parts)
    groups = [[ctx.readable(view) for view in piece.views] for piece in pieces]
    nest, fitted = ctx.nest(parts[0].shape, [view for views in groups for view in views])
    remaining = iter(fitted)
    for x, piece, views in zip(parts, pieces, groups, strict=True):
        loaded = [nest.load(next(remaining)) for _ in views]
        assert piece.producer is not None
        part = target.narrow(dim, piece.start, x.size(dim))
        assert part is not None
        nest.store(part, piece.producer.compute(nest, loaded).to(target.dtype))
    ctx.finish(nest)
    return target


def _twice(ctx: Context, parts: Sequence[TensorView], piece: Piece, dim: int) -> TensorView | None:
    """``cat((freqs, freqs), -1)``: each row's second half reads where its first one does. None for anything else.

    An intermediate is not read at computed positions: what makes it could not be fused then.
    """
    if len(parts) != 2 or parts[0] != parts[1] or dim != parts[0].rank - 1:
        return None
    views = [ctx.readable(view) for view in piece.views]
    if any(view.strides() is None or _is_made_along(ctx, view, dim) for view in views):
        return None
    target = ctx.make_result(like=views)
    nest, _ = ctx.nest(target.shape)
    at = nest.position(dim)
    half = nest.body.scalar(piece.end, torch.int64, Role.HALF)
    in_half = nest.body.where((at < half).named(Role.IN_FIRST_HALF), at, at - half).named(Role.IN_HALF)
    last = Coordinate(values=((in_half.position, 1),))
    coordinates = [*(nest.coordinate(before) for before in range(dim)), last]
    loaded = [nest.load_at(view, coordinates) for view in views]
    value = loaded[0] if piece.producer is None else piece.producer.compute(nest, loaded)
    nest.store(target, value.to(target.dtype).named(ctx.local))
    ctx.finish(nest)
    return target


def _is_made_along(ctx: Context, view: TensorView, dim: int) -> bool:
    """Whether an intermediate is read that varies along a dimension."""
    return ctx.buffers[view.buffer].kind is BufferKind.INTERMEDIATE and view.stride_of(dim) != 0


def _stored_one_by_one(
    ctx: Context, parts: Sequence[TensorView], pieces: Sequence[Piece], dim: int
) -> TensorView:
    """A nest per piece, each storing into its part of the result."""
    target = ctx.make_result(like=parts)
    for x, piece in zip(parts, pieces, strict=True):
        part = target.narrow(dim, piece.start, x.size(dim))
        assert part is not None
        nest, (view,) = ctx.nest(x.shape, [x])
        nest.store(part, nest.load(view).to(target.dtype))
        ctx.finish(nest)
    return target


@lowers(aten.stack.default)
def _stack(ctx: Context, tensors: Sequence[TensorView], dim: int) -> TensorView:
    rank = len(ctx.result_shape())
    dim = wrap(dim, rank)
    require_loop_dtypes(ctx.result().dtype, *(x.dtype for x in tensors))
    if any(x.is_empty for x in tensors):
        raise UnsupportedLowering("Stacking nothing is left to ATen.")
    if len(tensors) > _MOST_MASKED:
        rows = [x.insert(dim) for x in tensors]
        return _stored_one_by_one(ctx, rows, [Piece((x,), None, i, i + 1) for i, x in enumerate(rows)], dim)
    pieces = []
    for start, x in enumerate(tensors):
        piece = piece_of(ctx, x, 0, 0) if x.rank else Piece((x,), None, 0, 1)
        views = tuple(view.insert(dim) for view in piece.views)
        pieces.append(Piece(views, piece.producer, start, start + 1))
    if len(pieces) == 1:
        return ctx.pointwise([tensors[0].insert(dim)], lambda x: x)
    return joined(ctx, pieces, dim)


@lowers(aten.roll.default)
def _roll(ctx: Context, x: TensorView, shifts: Sequence[Size], dims: Sequence[int]) -> TensorView:
    if not dims or x.is_empty:
        raise UnsupportedLowering("roll of nothing, or over all dimensions at once, is left to ATen.")
    ways: dict[int, Size] = {}
    for dim, shift in zip(wrap_all(dims, x.rank), shifts, strict=True):
        ways[dim] = add(ways.get(dim, 0), shift)  # a dimension that is named twice is rolled twice
    if len(ways) > 1:
        return rolled(ctx, x, ways)
    ((dim, shift),) = ways.items()
    size = x.size(dim)
    if not isinstance(size, int) or not isinstance(shift, int):
        raise UnsupportedLowering("roll by a symbolic size is left to ATen.")
    require_loop_dtypes(x.dtype)
    shift %= size
    if shift == 0:
        return ctx.pointwise([x], lambda x: x)
    x = ctx.strided(x)
    tail, head = x.narrow(dim, size - shift, shift), x.narrow(dim, 0, size - shift)
    assert tail is not None and head is not None
    return _joined_in_order(ctx, [tail, head], dim)


# --- padding ---


@lowers(aten.constant_pad_nd.default)
def _constant_pad(ctx: Context, x: TensorView, pad: Sequence[Size], value: Number) -> TensorView:
    require_loop_dtypes(x.dtype)
    if x.is_empty:
        raise UnsupportedLowering("Padding nothing is left to ATen.")
    x = ctx.strided(x)
    ranges: list[tuple[int, Size, Size]] = []
    for i in range(len(pad) // 2):
        dim = x.rank - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        if not isinstance(before, int) or not isinstance(after, int):
            raise UnsupportedLowering("Padding by a symbolic size is left to ATen.")
        cut = x.narrow(dim, max(-before, 0), add(x.size(dim), min(before, 0) + min(after, 0)))
        assert cut is not None
        x = cut
        if before > 0 or after > 0:
            ranges.append((dim, max(before, 0), add(max(before, 0), x.size(dim))))
    if len(ranges) == 1 and _is_seam(ctx, x, ranges[0]):
        return _with_seam(ctx, x, value)
    return _padded(ctx, x, ranges, value)


def _is_seam(ctx: Context, x: TensorView, place: tuple[int, Size, Size]) -> bool:
    """Whether a few columns come behind each long row of what this graph computes."""
    dim, start, end = place
    missing = add(ctx.result_shape()[dim], multiply(-1, end))
    few = isinstance(missing, int) and isinstance(end, int) and missing * _SEAM_SHARE <= end
    is_ours = ctx.buffers[x.buffer].kind is BufferKind.INTERMEDIATE
    return few and is_ours and start == 0 and dim == x.rank - 1


def _with_seam(ctx: Context, x: TensorView, value: Number) -> TensorView:
    """The long rows and the seam behind them as a nest each: the rows are stored by what computes them."""
    target, last = ctx.make_result(), x.rank - 1
    length = x.size(last)
    rows = target.narrow(last, 0, length)
    seam = target.narrow(last, length, add(target.size(last), multiply(-1, length)))
    assert rows is not None and seam is not None
    ctx.write(x, rows)
    nest, _ = ctx.nest(seam.shape)
    nest.store(seam, nest.body.constant(converted(value, x.dtype), x.dtype))
    ctx.finish(nest)
    return target


def _padded(
    ctx: Context, x: TensorView, ranges: Sequence[tuple[int, Size, Size]], value: Number
) -> TensorView:
    target = ctx.make_result(like=[x])
    view: TensorView | None = x
    for dim, start, _ in ranges:
        assert view is not None
        view = view.shifted(dim, start, target.size(dim))
    assert view is not None
    nest, (fitted,) = ctx.nest(target.shape, [view])
    inside: Handle | None = None
    for dim, start, end in ranges:
        at = nest.position(dim)
        for condition in _bounds(nest, at, start, end, target.size(dim)):
            inside = condition if inside is None else inside & condition
    if inside is not None:
        inside.named(Role.IS_FILLED)
    nest.store(target, nest.load(fitted, inside, converted(value, x.dtype)).named(ctx.local))
    ctx.finish(nest)
    return target


def _bounds(nest: NestBuilder, at: Handle, start: Size, end: Size, size: Size) -> list[Handle]:
    """The conditions for start <= at < end, without those that always hold."""
    begin = [at >= nest.body.scalar(start, torch.int64, Role.FILLED_START)] if start != 0 else []
    role = Role.N_FILLED if start == 0 else Role.FILLED_END
    return [*begin, *([] if same(end, size) else [at < nest.body.scalar(end, torch.int64, role)])]


# --- writing a part ---


@lowers(aten.slice_scatter.default)
def _slice_scatter(
    ctx: Context, x: TensorView, source: TensorView, dim: int, start: Size | None, end: Size | None, step: int
) -> TensorView:
    dim = wrap(dim, x.rank)
    require_loop_dtypes(x.dtype, source.dtype)
    if step != 1 or x.is_empty or source.is_empty:
        raise UnsupportedLowering("slice_scatter with steps is left to ATen.")
    begin = slice_start(x.size(dim), start, source.size(dim))
    return _overwritten(ctx, x, source, dim, begin, add(begin, source.size(dim)))


@lowers(aten.select_scatter.default)
def _select_scatter(ctx: Context, x: TensorView, source: TensorView, dim: int, index: Size) -> TensorView:
    dim = wrap(dim, x.rank)
    require_loop_dtypes(x.dtype, source.dtype)
    if not isinstance(index, int):
        raise UnsupportedLowering("select_scatter at a symbolic position is left to ATen.")
    begin = add(index, x.size(dim)) if index < 0 else index
    return _overwritten(ctx, x, source.insert(dim), dim, begin, add(begin, 1))


def _overwritten(
    ctx: Context, x: TensorView, source: TensorView, dim: int, start: Size, end: Size
) -> TensorView:
    """x with positions `start` to `end` of one dimension taken from `source`."""
    target = ctx.make_result(like=[x])
    part = ctx.strided(source).shifted(dim, start, target.size(dim))
    assert part is not None
    nest, (x_view, part_view) = ctx.nest(target.shape, [x, part])
    inside: Handle | None = None
    for condition in _bounds(nest, nest.position(dim), start, end, target.size(dim)):
        inside = condition if inside is None else inside & condition
    new = nest.load(part_view, inside).to(x.dtype)
    value = new if inside is None else nest.body.where(inside, new, nest.load(x_view))
    nest.store(target, value.named(ctx.local))
    ctx.finish(nest)
    return target
