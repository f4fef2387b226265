"""Rows added up at positions that are data: on CUDA, what an index becomes in a derivative.

ATen's ``index_put(accumulate=True)`` sorts the positions, so that what meets at one is added by one thread: a dozen
launches. ``index_add_`` adds with atomic operations in one, but takes no negative positions, and rounds every sum of
16-bit numbers. So the positions are counted from the front, and 16-bit numbers are added up in float32; both are
computed in kernels, with what makes the rows. As in eager, the order of the additions is whatever it is, unless
``torch.use_deterministic_algorithms`` is on, with which ``index_add_`` sorts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from longhand.lower.body import compute_dtype
from longhand.lower.builder import Handle
from longhand.lower.context import Context
from longhand.lower.ir import Derivation
from longhand.lower.registry import lowers
from longhand.lower.sizes import product, same
from longhand.lower.unsupported import LOOP_DTYPES, Decline
from longhand.lower.views import TensorView

aten = torch.ops.aten

_POSITIONS = frozenset({torch.int64, torch.int32})  # bytes are a mask
# As many rows as may meet at one: beyond it sums one by one round more than what ATen sorts first, and atomic
# additions to one place wait for each other. 18,000 at one were off by 1.7e-4 of the sum on an H100.
_MOST_AT_ONE = 256


@lowers(aten.index_put.default)
def _index_put(
    ctx: Context,
    x: TensorView,
    indices: Sequence[TensorView | None],
    values: TensorView,
    accumulate: bool = False,
) -> TensorView:
    index, *others = indices
    if not (ctx.is_cuda and accumulate) or index is None or any(other is not None for other in others):
        raise Decline("Where it writes is data: ATen does it.")
    if x.dtype not in LOOP_DTYPES or not x.dtype.is_floating_point or index.dtype not in _POSITIONS:
        raise Decline("Where it writes is data: ATen does it.")
    if x.is_empty or index.is_empty or index.rank == 0:
        raise Decline("Adding nothing is left to ATen.")
    n_added, n_rows = product(index.shape), x.size(0)
    if isinstance(n_added, int) and isinstance(n_rows, int) and n_added > _MOST_AT_ONE * n_rows:
        raise Decline("So many rows meet at one that ATen sorts them first.")
    places = _places(ctx, index, x)
    rest = x.shape[1:]
    rows = _converted(ctx, values.expand((*index.shape, *rest)), compute_dtype(x.dtype), Derivation.WIDE)
    rows = _reshaped(ctx, rows, (product(index.shape), *rest))
    start = ctx.fills.get(x.buffer)
    is_wide = x.dtype == compute_dtype(x.dtype)
    total = ctx.make_result() if is_wide else ctx.derive(Derivation.TOTALS, ctx.name, rows.dtype, x.shape)
    nest, (view,) = ctx.nest(x.shape, [x])
    first: Handle = nest.load(view) if start is None else nest.body.constant(float(start), x.dtype)
    nest.store(total, first.to(total.dtype))
    ctx.finish(nest)
    given = ctx.argument(total), 0, ctx.argument(places), ctx.argument(rows)
    ctx.call(aten.index_add_.default, given, outputs=(), mutates=(total.buffer,))
    if is_wide:
        return total
    target = ctx.make_result()
    nest, (view,) = ctx.nest(x.shape, [total])
    nest.store(target, nest.load(view).to(x.dtype).named(ctx.local))
    ctx.finish(nest)
    return target


def _places(ctx: Context, index: TensorView, x: TensorView) -> TensorView:
    """The rows of x that an index means, none of them negative: (elements of the index,)."""
    nest, (view,) = ctx.nest(index.shape, [index])
    position = nest.load(view)
    from_front = position + nest.body.scalar(x.size(0), index.dtype, "n_rows")
    places = ctx.derive(Derivation.PLACES, index.buffer, index.dtype, index.shape)
    nest.store(places, nest.body.where(position < 0, from_front, position))
    ctx.finish(nest)
    return _reshaped(ctx, places, (product(index.shape),))


def _converted(ctx: Context, view: TensorView, dtype: torch.dtype, how: Derivation) -> TensorView:
    if view.dtype == dtype:
        return view
    nest, (found,) = ctx.nest(view.shape, [view])
    made = ctx.derive(how, view.buffer, dtype, view.shape)
    nest.store(made, nest.load(found).to(dtype))
    ctx.finish(nest)
    return made


def _reshaped(ctx: Context, view: TensorView, shape: Sequence[object]) -> TensorView:
    if len(shape) == view.rank and all(same(a, b) for a, b in zip(view.shape, shape, strict=True)):
        return view
    found = view.reshape(tuple(shape)) or ctx.copy(view).reshape(tuple(shape))
    assert found is not None
    return found
