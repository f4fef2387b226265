"""Pooling of small windows on a GPU: the largest or the mean element of the window that each result sees.

A window is axes of its own that are reduced; padding is a mask. So what is computed element by element before or after
is computed in the same kernel. Large windows, the CPU, and what needs the places of the largest elements (training)
stay with the library.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from longhand.capture.graph import Role
from longhand.lower.body import MOST_PLACES, compute_dtype
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.nest import Coordinate, NestBuilder
from longhand.lower.ops import PointwiseOp, ReduceOp
from longhand.lower.registry import lowers
from longhand.lower.sizes import add, multiply, same
from longhand.lower.unsupported import BEST_IN_LIBRARY, UnsupportedLowering
from longhand.lower.views import TensorView, overlaps

aten = torch.ops.aten
Op = PointwiseOp

_SIDES = (Role.DEPTH, Role.HEIGHT, Role.WIDTH)
_PADDED_SIDES = (Role.PADDED_DEPTH, Role.PADDED_HEIGHT, Role.PADDED_WIDTH)
_PLACES = (Role.N_SLICES_INSIDE, Role.N_LINES_INSIDE, Role.N_COLUMNS_INSIDE)
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclasses.dataclass(frozen=True)
class _Window:
    """What each result sees of the last dimensions of its argument, one number for each of them.

    Attributes:
        size: How many places.
        stride: How far the next result's window is.
        padding: How far the first one begins before the tensor.
        dilation: How far apart its places are.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(
        cls,
        n_dims: int,
        size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int] = (1,),
    ) -> _Window:
        """From arguments in which one number may stand for all dimensions, and no stride for the size."""

        def each(values: Sequence[int]) -> tuple[int, ...]:
            return tuple(values) * n_dims if len(values) == 1 else tuple(values)

        return cls(each(size), each(stride or size), each(padding), each(dilation))


class _PoolingNest:
    """A pooling under construction: a nest over the result and the window.

    Attributes:
        nest: Its last dimensions are the window's.
        axes: The window's.
        places: Where each element of the window lies in the argument, along each pooled dimension.
    """

    def __init__(self, ctx: Context, x: TensorView, target: TensorView, window: _Window) -> None:
        self.ctx, self.x, self.target, self.window = ctx, x, target, window
        self.nest: NestBuilder
        self.nest, _ = ctx.nest((*target.shape, *window.size))
        n_dims = len(window.size)
        self.axes = self.nest.axes(range(target.rank, target.rank + n_dims))
        self.first = target.rank - n_dims
        self.places = [self._place(dim) for dim in range(n_dims)]

    def _place(self, dim: int) -> Coordinate:
        window = self.window
        result = self.nest.coordinate(self.first + dim).times(window.stride[dim])
        inside = self.nest.coordinate(self.target.rank + dim).times(window.dilation[dim])
        return Coordinate(result.axes + inside.axes, -window.padding[dim])

    def _passes_end(self, dim: int, margin: int) -> bool:
        """Whether some place may lie more than `margin` behind the end of a dimension."""
        window, size = self.window, self.x.size(self.first + dim)
        last = (self.target.size(self.first + dim) - 1) * window.stride[dim]
        last += (window.size[dim] - 1) * window.dilation[dim] - window.padding[dim]
        return not isinstance(last, int) or not isinstance(size, int) or last >= size + margin

    def _end(self, dim: int, margin: int) -> Handle:
        roles = _PADDED_SIDES if margin else _SIDES
        size = add(self.x.size(self.first + dim), margin)
        return self.nest.body.scalar(size, torch.int64, roles[dim - len(self.places)])

    def is_inside(self) -> Handle | None:
        """Whether a place lies in the tensor; None where all do."""
        inside: Handle | None = None
        for dim, place in enumerate(self.places):
            at = self.nest.position_of(place)
            conditions = [at >= 0] if self.window.padding[dim] else []
            conditions += [at < self._end(dim, 0)] if self._passes_end(dim, 0) else []
            for condition in conditions:
                inside = condition if inside is None else inside & condition
        return inside if inside is None else inside.named(Role.IS_INSIDE)

    def count(self, counts_padding: bool, dtype: torch.dtype) -> Handle:
        """How many places of a window a mean is of: of those in the tensor, or in the padding, too."""
        count = self.nest.body.constant(1, dtype)
        for dim, (size, padding) in enumerate(zip(self.window.size, self.window.padding, strict=True)):
            margin = padding if counts_padding else 0
            is_cut = self._passes_end(dim, margin)
            if padding == margin and not is_cut:
                axes = self.nest.axes([self.target.rank + dim])
                count = count * self.nest.body.axis_size(axes, dtype) if axes else count
                continue
            result = self.nest.coordinate(self.first + dim).times(self.window.stride[dim])
            begin, end = (self.nest.position_of(result.plus(at - padding)) for at in (0, size))
            begin = apply(Op.MAXIMUM, begin, 0) if padding > margin else begin
            end = apply(Op.MINIMUM, end, self._end(dim, margin)) if is_cut else end
            length = (end - begin).named(_PLACES[dim - len(self.places)])
            count = count * length.to(dtype)
        return count

    def element(self, outside: float) -> Handle:
        """An element of the window; `outside` where it lies in the padding."""
        kept = [self.nest.coordinate(dim) for dim in range(self.first)]
        return self.nest.load_at(self.x, [*kept, *self.places], self.is_inside(), outside)

    def store(self, value: Handle) -> TensorView:
        """Stores the value of each result."""
        self.nest.store(self.target, value.named(self.ctx.local), range(self.target.rank))
        self.ctx.finish(self.nest)
        return self.target


def _begin(ctx: Context, x: TensorView, window: _Window) -> _PoolingNest:
    is_small = math.prod(window.size) <= MOST_PLACES
    # Of sizes that vary without a bound nobody knows whether steps between places pass 32 bits.
    is_small &= all(isinstance(extent, int) for extent in x.shape[-len(window.size) :])
    if not ctx.is_cuda or not is_small or x.dtype not in _FLOATS or x.is_empty:
        raise UnsupportedLowering(BEST_IN_LIBRARY)
    x = ctx.strided(x)
    x = ctx.copy(x) if overlaps(x) else x
    return _PoolingNest(ctx, x, ctx.make_result(like=[x]), window)


@lowers(aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default)
def _max_pool(
    ctx: Context,
    x: TensorView,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> TensorView:
    window = _Window.of(_n_dims(ctx), size, stride, padding, dilation)
    pooling = _begin(ctx, x, window)
    element = pooling.element(-math.inf)
    largest = pooling.nest.body.reduce(ReduceOp.MAX, element, pooling.axes)
    return pooling.store(largest.named(ctx.local or Role.WINDOW_MAX))


@lowers(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def _avg_pool(
    ctx: Context,
    x: TensorView,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    counts_padding: bool,
    divisor: int | None = None,
) -> TensorView:
    window = _Window.of(_n_dims(ctx), size, stride, padding)
    pooling = _begin(ctx, x, window)
    body = pooling.nest.body
    element = pooling.element(0.0)
    total = body.reduce(ReduceOp.SUM, element, pooling.axes, Role.WINDOW_SUM)
    if divisor is not None:
        return pooling.store(total / body.scalar(float(divisor), element.dtype, Role.DIVISOR))
    count = pooling.count(counts_padding, element.dtype)
    return pooling.store(total / count.named(Role.COUNT))


@lowers(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)
def _avg_pool_backward(
    ctx: Context,
    d_out: TensorView,
    x: TensorView,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    counts_padding: bool,
    divisor: int | None = None,
) -> TensorView:
    """Of windows side by side: an element takes its part of the one mean that it is in."""
    window = _Window.of(_n_dims(ctx), size, stride, padding)
    first = x.rank - len(window.size)
    fills = all(
        same(multiply(extent, n_places), x.size(first + dim))
        for dim, (extent, n_places) in enumerate(zip(d_out.shape[first:], window.size, strict=True))
    )
    is_ours = ctx.is_cuda and d_out.dtype in _FLOATS and not d_out.is_empty
    if not is_ours or window.stride != window.size or any(window.padding) or not fills:
        raise UnsupportedLowering(BEST_IN_LIBRARY)
    spread, shape = ctx.readable(d_out), list(d_out.shape[:first])
    for dim, n_places in enumerate(window.size):
        shape += [d_out.size(first + dim), n_places]
        spread = spread.insert(first + 2 * dim + 1)
    each = spread.expand(shape).reshape(x.shape)
    assert each is not None  # places beside each other are one dimension, whatever their step
    target = ctx.make_result(like=[x])
    nest, (view,) = ctx.nest(x.shape, [each])
    wide = nest.load(view).to(compute_dtype(d_out.dtype))
    count = nest.body.constant(float(divisor or math.prod(window.size)), wide.dtype)
    nest.store(target, (wide / count).to(target.dtype).named(ctx.local))
    ctx.finish(nest)
    return target


def _n_dims(ctx: Context) -> int:
    """The number in a pooling's name: 2 of avg_pool2d_backward."""
    name = str(ctx.node.target.overloadpacket.__name__)  # type: ignore[union-attr]
    return int(name[name.index("pool") + len("pool")])
