"""Mean and variance of few long rows, by pieces: on CUDA, where a program for each row would leave most of a GPU idle.

Every piece of a row that stays in a program's registers is reduced by itself, to its mean and the squares around it;
then the pieces of each row are combined,

    squares = sum(squares of the piece + size of the piece * (mean of the piece - mean)**2)

which loses no digits (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances"). Everything is read once for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from longhand.capture.graph import Role
from longhand.lower.body import compute_dtype
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.ir import Derivation
from longhand.lower.lowerings.normalization import mean_of
from longhand.lower.nest import NestBuilder
from longhand.lower.ops import ReduceOp
from longhand.lower.sizes import product
from longhand.lower.views import TensorView

__all__ = ["RowPieces", "combined", "row_pieces"]

# H100: 8 rows of 65,536 take 33 us one program each; their pieces, the combination and what reads it together 8.
# H200: a group norm and SiLU of 512 rows of 27,648 took some 63 us and 37 (a third of what chains of three took more
# than their convolutions). More rows than these were not measured: read twice instead of three times, they should gain.
_LONG = 16384  # elements of a row: shorter ones are done before further kernels have started
_MANY = 4096  # rows that fill a GPU by themselves
_MOST = 8192  # elements of a piece: more do not stay in a program's registers


@dataclasses.dataclass(frozen=True)
class RowPieces:
    """The statistics of the pieces that rows consist of.

    Attributes:
        means: Of each piece, (*rows, pieces of a row).
        squares: The sums of the squares around them.
        size: The elements of a piece.
    """

    means: TensorView
    squares: TensorView
    size: int

    def nest(self, ctx: Context) -> NestBuilder:
        """A nest over all pieces, in which `statistics` combines them."""
        return ctx.nest(self.means.shape, [self.means, self.squares])[0]

    def statistics(self, nest: NestBuilder) -> tuple[Handle, Handle, Handle]:
        """(mean, squares around it, number of elements) of a row."""
        axes = nest.axes([nest.rank - 1])
        size = nest.body.scalar(self.size, self.means.dtype, Role.PIECE_SIZE)
        return combined(nest, nest.load(self.means), nest.load(self.squares), axes, size)


def row_pieces(ctx: Context, x: TensorView, dims: Sequence[int], name: str) -> RowPieces | None:
    """The pieces of the rows that lie along `dims`, if they are few and long and this is for CUDA, else None.

    Args:
        x: What has rows.
        dims: The dimensions that a row consists of.
        name: The result that the statistics are for.
    """
    rows = [size for dim, size in enumerate(x.shape) if dim not in dims]
    n_rows, length = product(rows), product(x.shape[dim] for dim in dims)
    if not (ctx.is_cuda and isinstance(n_rows, int) and isinstance(length, int)):
        return None
    if n_rows >= _MANY or length <= _LONG:
        return None
    dim = max(dims, key=lambda one: (x.shape[one], -one))
    size = x.shape[dim]
    assert isinstance(size, int)
    per_step = length // size
    n_pieces = next((n for n in range(2, size + 1) if size % n == 0 and size // n * per_step <= _MOST), None)
    if n_pieces is None:
        return None
    shape = (*x.shape[:dim], n_pieces, size // n_pieces, *x.shape[dim + 1 :])
    pieces = x.reshape(shape) or ctx.copy(x).reshape(shape)
    assert pieces is not None
    nest, (view,) = ctx.nest(shape, [pieces])
    inside = [dim + 1, *(one + (one > dim) for one in dims if one != dim)]
    outside = [one for one in range(nest.rank) if one not in inside]
    value, axes = nest.load(view), nest.axes(sorted(inside))
    mean = mean_of(nest, value, axes, Role.MEAN)
    centered = (value - mean).named(Role.CENTERED)
    squares = nest.body.reduce(ReduceOp.SUM, centered * centered, axes, Role.SQUARES)
    order = [*(one for one in outside if one != dim), dim]
    kept = []
    for how, statistic in ((Derivation.PIECE_MEANS, mean), (Derivation.PIECE_SQUARES, squares)):
        buffer = ctx.derive(how, name, compute_dtype(x.dtype), (*rows, n_pieces))
        nest.store(buffer.permute([order.index(one) for one in outside]), statistic, outside)
        kept.append(buffer)
    ctx.finish(nest)
    return RowPieces(kept[0], kept[1], size // n_pieces * per_step)


def combined(
    nest: NestBuilder, mean_of_piece: Handle, squares: Handle, axes: Sequence[str], size: Handle
) -> tuple[Handle, Handle, Handle]:
    """(mean, squares around it, number of elements) of what lies along axes of pieces.

    Args:
        nest: Over the pieces.
        mean_of_piece: Of the current one.
        squares: The sum of the squares around it.
        axes: Along which pieces belong together.
        size: The elements of a piece.
    """
    if not axes:  # one piece
        return mean_of_piece, squares, size
    mean = mean_of(nest, mean_of_piece, axes, Role.MEAN)
    apart = (mean_of_piece - mean).named(Role.APART)
    around = (squares + apart * apart * size).named(Role.SQUARES_AROUND)
    total = nest.body.reduce(ReduceOp.SUM, around, axes, Role.TOTAL_SQUARES)
    return mean, total, (nest.body.axis_size(axes, mean.dtype) * size).named(Role.COUNT)
