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

from longhand.lower.body import MOST_PLACES
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.nest import Coordinate, NestBuilder
from longhand.lower.ops import ReduceOp
from longhand.lower.registry import lowers
from longhand.lower.unsupported import BEST_IN_LIBRARY, Decline
from longhand.lower.views import TensorView, overlaps

aten = torch.ops.aten

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

    def is_within(self, margin: Sequence[int]) -> Handle | None:
        """Whether a place lies in the tensor, or at most `margin` outside; None where all do."""
        found: Handle | None = None
        for dim, place in enumerate(self.places):
            size = self.x.size(self.first + dim)
            last = (self.target.size(self.first + dim) - 1) * self.window.stride[dim]
            last += (self.window.size[dim] - 1) * self.window.dilation[dim] - self.window.padding[dim]
            at = self.nest.position_of(place)
            conditions = [at >= 0] if self.window.padding[dim] > margin[dim] else []
            if not isinstance(last, int) or not isinstance(size, int) or last >= size + margin[dim]:
                conditions.append(at < self.nest.size(size + margin[dim]))
            for condition in conditions:
                found = condition if found is None else found & condition
        return found

    def element(self, outside: float) -> Handle:
        """An element of the window; `outside` where it lies in the padding."""
        kept = [self.nest.coordinate(dim) for dim in range(self.first)]
        inside = self.is_within([0] * len(self.places))
        is_inside = None if inside is None else inside.named("is_inside")
        return self.nest.load_at(self.x, [*kept, *self.places], is_inside, outside)

    def store(self, value: Handle) -> TensorView:
        """Stores the value of each result."""
        self.nest.store(self.target, value.named(self.ctx.local), range(self.target.rank))
        self.ctx.finish(self.nest)
        return self.target


def _begin(ctx: Context, x: TensorView, window: _Window) -> _PoolingNest:
    is_small = math.prod(window.size) <= MOST_PLACES
    if not ctx.is_cuda or not is_small or x.dtype not in _FLOATS or x.is_empty:
        raise Decline(BEST_IN_LIBRARY)
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
    return pooling.store(largest.named(ctx.local or "window_max"))


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
    total = body.reduce(ReduceOp.SUM, element, pooling.axes, "window_sum")
    if divisor is not None:
        return pooling.store(total / body.scalar(float(divisor), element.dtype, "divisor"))
    is_counted = pooling.is_within(window.padding if counts_padding else [0] * len(window.size))
    if is_counted is None:
        count = body.extent(pooling.axes, element.dtype) if pooling.axes else 1.0
    else:
        count = body.reduce(ReduceOp.SUM, is_counted.to(element.dtype), pooling.axes, "count")
    return pooling.store(total / count)


def _n_dims(ctx: Context) -> int:
    return int(str(ctx.node.target.overloadpacket.__name__)[-2])  # type: ignore[union-attr]
