"""What is added to the scores and put instead of them, as the one mask that attention takes."""

from __future__ import annotations

import dataclasses

import torch
from torch import fx

from longhand.capture.attention.axes import Group, Groups, ViewAxes, size_of_group
from longhand.capture.attention.dimensions import Dimensions
from longhand.capture.attention.hidden_rows import HiddenRows
from longhand.capture.attention.mapping import axes_of_operand, joined, lacks_some
from longhand.capture.attention.operands import Views, as_wanted
from longhand.capture.attention.scores import Fill, WrittenAttention, factors_after
from longhand.capture.known.call import shape_of

aten = torch.ops.aten

_HALVES = (torch.float16, torch.bfloat16)


def bias_of(
    views: Views, written: WrittenAttention, dims: Dimensions, hidden: HiddenRows
) -> tuple[fx.Node | None] | None:
    """The mask, or None for none; None instead of both where there is no such mask."""
    maker = _MaskMaker(views, dims, written.dtype)
    after = factors_after(written.steps)
    filled = [step for step in written.steps if step.fill is not None]
    if len(filled) == 1 and not any(step.bias for step in written.steps):
        fill = filled[0].fill
        assert fill is not None
        if hidden.keeps_a_key(fill.mask, fill.is_kept):
            mask = maker.in_place(fill.mask, dims.steps[written.steps.index(filled[0])])
            if mask is None:
                return None
            return (mask if fill.is_kept else views.call(aten.bitwise_not.default, mask, of=fill.mask),)
    bias: fx.Node | None = None
    for step, place, factor in zip(written.steps, dims.steps, after, strict=True):
        made: fx.Node | None = None
        if step.bias is not None:
            made = maker.added(bias, step.bias[0], step.bias[1] * factor, place)
        elif step.fill is not None:
            made = maker.filled(bias, step.fill, factor, place)
        else:
            continue
        if made is None:
            return None
        bias = made
    return (bias,)


@dataclasses.dataclass(frozen=True)
class _MaskMaker:
    """Adds the calls that a mask is made by."""

    views: Views
    dims: Dimensions
    dtype: torch.dtype

    def added(self, before: fx.Node | None, bias: fx.Node, factor: float, place: Groups) -> fx.Node | None:
        """What was there before, plus a bias times a number."""
        own = self._typed(bias)
        made = None if own is None else self.in_place(own, place)
        if made is None:
            return None
        if factor != 1.0:
            made = self.views.call(aten.mul.Tensor, made, factor, of=bias)
        return made if before is None else self.views.call(aten.add.Tensor, before, made, of=bias)

    def filled(self, before: fx.Node | None, fill: Fill, after: float, place: Groups) -> fx.Node | None:
        """What was there before, and a number where a mask says so."""
        mask = self.in_place(fill.mask, place)
        if mask is None:
            return None
        made = {"dtype": self.dtype, "device": fill.mask.meta["val"].device}
        instead = self.views.call(aten.full.default, [], fill.number * after, of=fill.mask, **made)
        if before is None:
            before = self.views.call(aten.full.default, [], 0.0, of=fill.mask, **made)
        sides = (before, instead) if fill.is_kept else (instead, before)
        return self.views.call(aten.where.self, mask, *sides, of=fill.mask)

    def _typed(self, bias: fx.Node) -> fx.Node | None:
        """A bias in the type of the queries, where that holds all its numbers."""
        dtype = bias.meta["val"].dtype
        if dtype is self.dtype:
            return bias
        is_held = dtype in _HALVES and self.dtype is torch.float32
        return self.views.call(aten._to_copy.default, bias, dtype=self.dtype, of=bias) if is_held else None

    def in_place(self, bias: fx.Node, place: Groups) -> fx.Node | None:
        """A tensor that broadcasts to the scores, where these have some dimensions, as one for attention."""
        repeated = self._repeated(bias, place)
        if repeated is None:
            return None
        made = as_wanted(self.views, repeated, lambda axes, groups: self._wanted(place, axes, groups))
        if made is not None and made.target is aten.reshape.default:
            (source, *_), shape = made.args, shape_of(made)
            if isinstance(source, fx.Node) and shape == (1, 1, *shape_of(source)):
                return source  # one for all batches and heads
        return made

    def _wanted(self, place: Groups, axes: ViewAxes, groups: Groups) -> list[Group | None] | None:
        found = axes_of_operand(axes, groups, self.dims.axes, place)
        if found is None:
            return None
        dims = [self.dims.batch, self.dims.heads, self.dims.queries, self.dims.keys]
        wanted = [joined(axes, found, group) for group in dims]
        is_whole = not any(lacks_some(found, group) for group in dims)
        return wanted if is_whole and wanted[-1] is not None else None

    def _repeated(self, bias: fx.Node, place: Groups) -> fx.Node | None:
        """The bias along all axes of a dimension of attention, where it has some of them."""
        shape = [1] * (len(place) - len(shape_of(bias))) + list(shape_of(bias))
        wide = list(shape)
        for group in (self.dims.batch, self.dims.heads, self.dims.queries, self.dims.keys):
            axes = set(self.dims.axes.resolved(group))
            own = [dim for dim, parts in enumerate(place) if axes & set(self.dims.axes.resolved(parts))]
            if len({shape[dim] == 1 for dim in own}) > 1:
                for dim in own:
                    wide[dim] = size_of_group(place[dim])
        if wide == shape:
            return bias
        ranked = self.views.reshaped(bias, shape)
        return None if ranked is None else self.views.expanded(ranked, wide)
