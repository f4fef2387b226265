"""Batch norm by the batch's own statistics, written out: on CUDA, where images have enough pixels.

ATen's kernel takes one program for each channel: 32 channels leave most of a GPU idle, whatever the images' size. Here
every piece of a channel that fits a program's registers is reduced by itself, and the pieces of each channel are
combined (`piecewise`). The images are read twice: for the statistics, and where they are normalized.
"""

from __future__ import annotations

from longhand.capture.graph import FEWEST_PIXELS, Role, batch_normalized_op, has_channel_pieces
from longhand.lower.body import Size, compute_dtype
from longhand.lower.context import Context
from longhand.lower.ir import Derivation
from longhand.lower.lowerings.normalization import affine, mean_of, per_channel
from longhand.lower.lowerings.piecewise import combined
from longhand.lower.lowerings.pointwise import apply
from longhand.lower.ops import PointwiseOp, ReduceOp
from longhand.lower.sizes import divide, product
from longhand.lower.unsupported import require_loop_dtypes
from longhand.lower.views import TensorView

# Pixels of a piece: more do not stay in the registers of a program (of 64 channels side by side, where these are what
# lies side by side in memory).
_MOST = 8192
_MOST_OF_MANY_CHANNELS = 512


def has_pieces(ctx: Context, x: TensorView) -> bool:
    """Whether this is the way to normalize images."""
    return ctx.is_cuda and not x.is_empty and has_channel_pieces(x.shape)


def normalize_by_batch(
    ctx: Context,
    x: TensorView,
    weight: TensorView | None,
    bias: TensorView | None,
    running: tuple[TensorView, TensorView],
    momentum: float,
    eps: float,
) -> tuple[TensorView, ...]:
    """The normalized images, their mean and 1 / deviation, and the new running mean and variance."""
    require_loop_dtypes(*(view.dtype for view in (x, *running, weight, bias) if view is not None))
    mean, rstd, *updated = _combined(ctx, *_pieces(ctx, x), running, momentum, eps)
    target = normalized_images(ctx, x, weight, bias, (mean, rstd), 0)
    return (target, mean, rstd, *updated)


def normalized_images(
    ctx: Context,
    x: TensorView,
    weight: TensorView | None,
    bias: TensorView | None,
    statistics: tuple[TensorView, TensorView],
    position: int | None = None,
) -> TensorView:
    """(x - mean) * rstd * weight + bias, of which the last two may be missing: the op's result, or one of several."""
    vectors = [*statistics, *(view for view in (weight, bias) if view is not None)]
    nest, (x_view, mean_view, rstd_view, *others) = ctx.nest(
        x.shape, [x, *(per_channel(x, view) for view in vectors)]
    )
    value = nest.load(x_view)
    centered = value - nest.load(mean_view).to(value.dtype)
    normalized = (centered * nest.load(rstd_view).to(value.dtype)).named(Role.NORMALIZED)
    target = ctx.make_result(position, like=[x])
    nest.store(target, affine(nest, normalized, weight, bias, others).named(ctx.local))
    ctx.finish(nest)
    return target


def _pieces(ctx: Context, x: TensorView) -> tuple[TensorView, TensorView, Size]:
    """The mean of each piece and the squares around it, (channels, images, pieces of an image); a piece's size."""
    batch, channels, *spatial = x.shape
    view = ctx.readable(x)
    n_pixels = product(spatial)
    steps = view.strides()
    is_spread = steps is not None and isinstance(n_pixels, int) and steps[1] == 1  # channels last
    n_pieces = _count(n_pixels, _MOST_OF_MANY_CHANNELS if is_spread else _MOST)
    size = divide(n_pixels, n_pieces)
    assert size is not None
    shape = (batch, channels, n_pieces, size)
    pieces = view.reshape(shape) or ctx.copy(view).reshape(shape)
    assert pieces is not None
    nest, (piece_view,) = ctx.nest(shape, [pieces])
    value, axes = nest.load(piece_view), nest.axes([3])
    mean = mean_of(nest, value, axes, Role.MEAN)
    centered = (value - mean).named(Role.CENTERED)
    squares = nest.body.reduce(ReduceOp.SUM, centered * centered, axes, Role.SQUARES)
    statistics = []
    for how, statistic in ((Derivation.PIECE_MEANS, mean), (Derivation.PIECE_SQUARES, squares)):
        kept = ctx.derive(how, _images_name(ctx), compute_dtype(x.dtype), (channels, batch, n_pieces))
        nest.store(kept.permute((1, 0, 2)), statistic, range(3))
        statistics.append(kept)
    ctx.finish(nest)
    return statistics[0], statistics[1], size


def _images_name(ctx: Context) -> str:
    """What the normalized images are called: the result, or in training the op's that takes the statistics."""
    readers = (reader for result in ctx.node.users for reader in result.users)
    own = (reader.name for reader in readers if reader.target is batch_normalized_op)
    return next(own, ctx.result_name(0))


def _count(n_pixels: Size, most: int) -> int:
    """Of how many equal pieces an image is: so few that none is too long, and one where they would be tiny."""
    if not isinstance(n_pixels, int):
        return 1
    counts = range(-(-n_pixels // most), n_pixels // FEWEST_PIXELS + 1)
    return next((count for count in counts if n_pixels % count == 0), 1)


def _combined(
    ctx: Context,
    means: TensorView,
    squares: TensorView,
    size: Size,
    running: tuple[TensorView, TensorView],
    momentum: float,
    eps: float,
) -> list[TensorView]:
    """By channel: the mean, 1 / deviation, and the new running mean and variance."""
    nest, (means_view, squares_view, *old_views) = ctx.nest(
        means.shape, [means, squares, *(view.insert(1).insert(2) for view in running)]
    )
    axes, mean, total = nest.axes([1, 2]), nest.load(means_view), nest.load(squares_view)
    dtype = mean.dtype
    is_whole = means.shape[1:] == (1, 1)  # each channel is one piece
    count = nest.body.scalar(size, dtype, Role.N_AVERAGED if is_whole else Role.PIECE_SIZE)
    mean, total, count = combined(nest, mean, total, axes, count)
    variance = (total / count).named(Role.VARIANCE)
    rstd = apply(PointwiseOp.RSQRT, variance + nest.body.scalar(eps, dtype, Role.EPS), name=Role.RSTD)
    share = nest.body.scalar(momentum, dtype, Role.MOMENTUM)
    updated = [
        nest.load(view).to(dtype) * (1.0 - share) + new * share
        for view, new in zip(old_views, (mean, total / (count - 1.0)), strict=True)
    ]
    statistics = []
    for place, value in enumerate((mean, rstd, *updated), 1):
        kept = ctx.make_result(place)
        nest.store(kept, value, [0])
        statistics.append(kept)
    ctx.finish(nest)
    return statistics
