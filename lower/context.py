"""What a lowering works with: the program under construction, and how a view is handed to who reads it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import sympy
import torch
from torch import fx

from longhand.lower.body import Size
from longhand.lower.builder import Handle, Number
from longhand.lower.ir import Buffer, BufferKind, Derivation, Extern, View, ViewCall, memory_order
from longhand.lower.layouts import (
    channels_last_strides,
    eager_strides,
    has_strides,
    is_channels_last,
    lie_last,
)
from longhand.lower.library_copies import allocated_for_aten
from longhand.lower.nest import NestBuilder, factors_of
from longhand.lower.program_builder import DeferredProducer, ProgramBuilder
from longhand.lower.sizes import contiguous_strides
from longhand.lower.unsupported import LOOP_DTYPES, UnsupportedLowering, require_loop_dtypes
from longhand.lower.views import TensorView, whole

Operand: TypeAlias = TensorView | float | sympy.Expr
Combine = Callable[..., Handle]


class Context(ProgramBuilder):
    """The program under construction, seen from the node that is being lowered: views in it, laid out as they must be
    for a nest, a library call or the caller, and nests over them.
    """

    # --- layouts ---

    def readable(self, view: TensorView) -> TensorView:
        """The view, or a dense copy of it where its buffer's layout is not known before the call."""
        if self.buffers[view.buffer].layout_is_known:
            return view
        if view not in self._plain:
            is_said = view.calls is not None or view.as_ir() is not None
            self._plain[view] = self._as_expected(view) if is_said else self._of_whole(view)
        return self._plain[view]

    def _of_whole(self, view: TensorView) -> TensorView:
        """A part that no words tell of what a library makes: the same part of a copy that lies as it was at capture."""
        buffer = self.buffers[view.buffer]
        made = self.readable(whole(buffer))
        if not has_strides(made, buffer.stride):
            raise UnsupportedLowering("A part of what a library makes is not told by words.")
        return dataclasses.replace(view, buffer=made.buffer)

    def _as_expected(self, view: TensorView) -> TensorView:
        """A view of what a library makes, laid out as it was at capture: if it is so again, nothing is copied."""
        contiguous = torch.ops.aten.contiguous.default
        if view.calls == () and is_channels_last(view):
            strides = channels_last_strides(view.shape)
            copy = self.derive(Derivation.CHANNELS_LAST, view.buffer, view.dtype, view.shape, strides)
            layout = {"memory_format": torch.channels_last}
            self.call(contiguous, (self.argument(view),), layout, outputs=(copy.buffer,))
            return copy
        order = memory_order(self.buffers[view.buffer]) if view.calls == () else [*range(view.rank)]
        permuted = _permuted(view, order)
        copy = self.derive(Derivation.CONTIGUOUS, view.buffer, view.dtype, permuted.shape)
        self.call(contiguous, (self.argument(permuted),), {}, outputs=(copy.buffer,))
        return _permuted(copy, [order.index(dim) for dim in range(view.rank)])

    def channels_last(self, view: TensorView) -> TensorView:
        """The view of images, or a copy of it that is channels last, made once; what only a library lays out stays."""
        is_ours = self.buffers[view.buffer].layout_is_known and view.dtype in LOOP_DTYPES
        if not is_ours or is_channels_last(view) or view.rank != 4 or not _differs(view):
            return view
        if view not in self._channels_last:
            strides = channels_last_strides(view.shape)
            before, self.node = self.node, self._maker.get(view.buffer, self.node)
            copy = self.derive(Derivation.CHANNELS_LAST, view.buffer, view.dtype, view.shape, strides)
            self._channels_last[view] = self._filled(copy, view)
            self.node = before
        return self._channels_last[view]

    def as_in_eager(self, view: TensorView, value: torch.Tensor) -> TensorView:
        """The view, or a copy with the strides that eager gives it, which the fake tensor `value` has."""
        strides = eager_strides(value)
        if strides is None or view.dtype not in LOOP_DTYPES:
            return view
        if has_strides(view, strides) and not self._follows_images(view.buffer):
            return view
        # Of what a library lays out: eager copies it on the way, or copies its images.
        plain = self.readable(view)
        return plain if has_strides(plain, strides) else self.copy(plain, stride=strides)

    def _follows_images(self, name: str) -> bool:
        """Whether a library may lay out its result otherwise than at capture: as its images, which lie otherwise."""
        made = self.buffers[name]
        if made.layout_is_known or len(made.shape) != 4:
            return False
        maker = next(
            (step for step in reversed(self.steps) if isinstance(step, Extern) and name in step.outputs), None
        )
        given = maker.args[0] if maker is not None and maker.args else None
        if not isinstance(given, View) or len(given.shape) != 4 or not _differs(whole(made)):
            return False
        return lie_last(given.shape, given.stride) != lie_last(made.shape, made.stride)

    def argument(self, view: TensorView) -> View:
        """The view as an argument of a library call: a copy where no strides or words describe it."""
        described = view.as_ir()
        if described is not None:
            return described
        plain = self.buffers[view.buffer].layout_is_known and view.dtype in LOOP_DTYPES
        if not plain and view.calls is not None:
            # The strides are not known, or ATen has to copy: the words say it all.
            return View(view.buffer, view.shape, contiguous_strides(view.shape), 0, view.calls)
        copied = self.copy(view).as_ir()
        assert copied is not None
        return copied

    def node_argument(self, node: fx.Node) -> View:
        """A node's value as an argument of a library call. A copy that it takes is made once, under its name."""
        view: TensorView = self.values[node.name]
        described = view.as_ir()
        if (
            described is not None
            or not self.buffers[view.buffer].layout_is_known
            or view.dtype not in LOOP_DTYPES
        ):
            return self.argument(view)
        before, self.node = self.node, node
        if node.name not in self.buffers:
            copied = self._filled(self.make_buffer(node.name, view.dtype, view.shape), view)
        else:
            copied = self._filled(self.derive(Derivation.CONTIGUOUS, node.name, view.dtype, view.shape), view)
        self.node = before
        self.values[node.name] = copied
        return self.argument(copied)

    def strided(self, view: TensorView) -> TensorView:
        """The view, or a contiguous copy where its dimensions have no single strides or its layout is unknown."""
        view = self.readable(view)
        return view if view.strides() is not None else self.copy(view)

    # --- copies ---

    def copy(self, view: TensorView, stride: Sequence[Size] | None = None, origin: str = "") -> TensorView:
        """A copy of a view, contiguous unless `stride` says otherwise; for the node at hand if `origin` names none."""
        made = self.derive(Derivation.CONTIGUOUS, view.buffer, view.dtype, view.shape, stride)
        return self._filled(made, view, origin)

    def _filled(self, copy: TensorView, view: TensorView, origin: str = "") -> TensorView:
        """The copy, with the elements of the view in it."""
        if allocated_for_aten(self, view, copy):
            self.copy_into(view, copy)
        else:
            self.write(view, copy, origin)
        return copy

    def copy_into(self, view: TensorView, into: TensorView, reason: str | None = None) -> None:
        """ATen's copy of the elements of a view to where `into` is."""
        given = self.argument(into), self.argument(view)
        self.call(torch.ops.aten.copy_.default, given, outputs=(), mutates=(into.buffer,), reason=reason)

    def write(self, view: TensorView, into: TensorView, origin: str = "") -> None:
        """A nest that copies the elements of a view to where `into` (of the same shape) is."""
        if view.dtype not in LOOP_DTYPES:
            raise UnsupportedLowering(f"{view.dtype} is copied by ATen.")
        factors, unfit = factors_of(into.shape, [self.readable(view), into])
        if unfit:
            raise UnsupportedLowering("The two layouts have no common loops.")
        nest = NestBuilder(origin or self.name, into.shape, factors, self._words)
        source = self.readable(view)
        nest.store(into, nest.load(source))
        self.finish(nest)

    # --- nests ---

    def nest(
        self, shape: Sequence[Size], views: Sequence[TensorView] = ()
    ) -> tuple[NestBuilder, list[TensorView]]:
        """A new nest over `shape` and the views (broadcastable to it) as they are to be read in it."""
        space = tuple(shape)
        fitted = [self.readable(view).expand(space) for view in views]
        factors, unfit = factors_of(space, fitted)
        for position in unfit:
            fitted[position] = self.copy(self.readable(views[position])).expand(space)
        return NestBuilder(self.name, space, factors, self._words), fitted

    def _known_number(self, operand: Operand) -> Operand:
        """The number that a tensor holds everywhere, if that is known; else the operand."""
        return self.fills.get(operand.buffer, operand) if isinstance(operand, TensorView) else operand

    def pointwise(
        self,
        operands: Sequence[Operand],
        combine: Combine,
        *,
        operand_dtype: torch.dtype | Sequence[torch.dtype] | None = None,
        keeps_layout: bool = True,
    ) -> TensorView:
        """A nest that computes the node's result element by element.

        Args:
            operands: Tensors (broadcast to the result), numbers and symbolic sizes.
            combine: The value from one handle per operand.
            operand_dtype: What every operand (or each of them) is converted to first; None: the result's dtype.
            keeps_layout: Whether the result is channels last where an operand is.
        """
        result = self.result()
        operands = [self._known_number(operand) for operand in operands]
        dtypes = operand_dtype or result.dtype
        if isinstance(dtypes, torch.dtype):
            dtypes = [dtypes] * len(operands)
        require_loop_dtypes(*dtypes, result.dtype, *(x.dtype for x in operands if isinstance(x, TensorView)))
        tensors = [operand for operand in operands if isinstance(operand, TensorView)]
        target = self.make_result(like=tensors if keeps_layout else ())
        if is_channels_last(target):
            tensors = [self._channels_last.get(tensor, tensor) for tensor in tensors]
        nest, views = self.nest(target.shape, tensors)

        def compute(space: NestBuilder, loaded: list[Handle]) -> Handle:
            left = iter(loaded)
            handles = [
                next(left).to(dtype) if isinstance(operand, TensorView) else number(space, operand, dtype)
                for operand, dtype in zip(operands, dtypes, strict=True)
            ]
            return combine(*handles).to(result.dtype)

        value = compute(nest, [nest.load(view) for view in views])
        nest.store(target, value.named(self.local))
        self.finish(nest)
        self.deferred_producers[target.buffer] = DeferredProducer(tuple(views), compute)
        return target


def _permuted(view: TensorView, order: Sequence[int]) -> TensorView:
    """A view with its dimensions in another order, as a person says it."""
    moved = [dim for dim, source in enumerate(order) if dim != source]
    if not moved:
        return view
    aten = torch.ops.aten
    call = (
        ViewCall(aten.transpose.int, tuple(moved))
        if len(moved) == 2
        else ViewCall(aten.permute.default, (tuple(order),))
    )
    return view.permute(order).said(view, call)


def _differs(view: TensorView) -> bool:
    """Whether channels last is a layout of its own for images of this shape: not with one channel, or one pixel."""
    shape = view.shape
    buffer = Buffer("", BufferKind.INTERMEDIATE, view.dtype, shape, channels_last_strides(shape))
    return is_channels_last(whole(buffer))


def number(nest: NestBuilder, value: Number | sympy.Expr, dtype: torch.dtype) -> Handle:
    """A Python number as a constant, a symbolic size as a scalar argument."""
    if isinstance(value, sympy.Expr):
        return nest.body.scalar(value, dtype)
    return nest.body.constant(value, dtype)
