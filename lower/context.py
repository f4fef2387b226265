"""What a lowering works with: the program under construction and the node that is being lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import sympy
import torch
from torch import fx

from longhand.capture.graph import AliasKind, CapturedGraph, Provenance
from longhand.lower.body import Size, Store
from longhand.lower.builder import Handle, Number
from longhand.lower.ir import Buffer, BufferKind, Extern, Nest, Step, View
from longhand.lower.layouts import (
    attention_operands,
    channels_last_strides,
    eager_strides,
    has_strides,
    is_channels_last,
)
from longhand.lower.library_copies import copied_by_aten
from longhand.lower.nest import NestBuilder, factors_of
from longhand.lower.recipe import Recipe
from longhand.lower.sizes import as_size, contiguous_strides
from longhand.lower.unsupported import LOOP_DTYPES, Decline, require_loop_dtypes
from longhand.lower.views import TensorView, whole

Operand: TypeAlias = TensorView | float | sympy.Expr
Combine = Callable[..., Handle]


class Context:
    """The program under construction, seen from the node that is being lowered.

    Attributes:
        graph: The captured graph.
        node: The node being lowered; the name of what it makes and the origin of every value.
        buffers: Every buffer so far, by name.
        steps: The steps so far.
        recipes: For intermediates made by one elementwise nest, how.
        fills: Intermediates that hold one number everywhere, and it.
        progressions: Intermediates of one dimension that hold start, start + step, ...: (start, step), both whole.
        laid_out_as_in_eager: Nodes that are results of the call with memory of their own, or operands of attention.
        keeps_channels_last: Whether convolutions work channels last, so that what they read is brought to it.
        returned: Buffers that results of the call are views of.
        host: Nodes whose tensors are on the CPU in a program for a GPU; `host_buffers`: where they lie.
        values: What each node became: a TensorView, a size or number, or a tuple of these.
    """

    def __init__(
        self,
        graph: CapturedGraph,
        keeps_channels_last: bool = False,
        taken: Iterable[str] = (),
        is_cuda: bool = False,
    ) -> None:
        self.graph, self.is_cuda = graph, is_cuda
        self.keeps_channels_last = keeps_channels_last
        self.laid_out_as_in_eager = attention_operands(graph) | {
            output.value
            for output in graph.outputs
            if isinstance(output.value, str) and output.alias is AliasKind.FRESH
        }
        self.buffers: dict[str, Buffer] = {}
        self.steps: list[Step] = []
        self.recipes: dict[str, Recipe] = {}
        self.fills: dict[str, Number | sympy.Expr] = {}
        self.progressions: dict[str, tuple[Size, Size]] = {}
        self.returned: set[str] = set()
        self.host: frozenset[str] = frozenset()
        self.host_buffers: set[str] = set()
        self.values: dict[str, Any] = {}
        self.node: fx.Node = next(iter(graph.graph.nodes))
        self._words: Mapping[sympy.Expr, str] = {entry.symbol: entry.name for entry in graph.symbols}
        self._maker = {node.name: node for node in graph.graph.nodes if node.op == "call_function"}
        self._taken = {*taken, *(node.name for node in graph.graph.nodes)}
        self._plain: dict[TensorView, TensorView] = {}
        self._channels_last: dict[TensorView, TensorView] = {}

    # --- the node ---

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def local(self) -> str | None:
        """The user's own name for the node's value."""
        origin: Provenance = self.node.meta.get("provenance", Provenance())
        return origin.local or origin.role or None

    def result(self, position: int | None = None) -> torch.Tensor:
        """The fake tensor that the node (or one of its results) computes."""
        value = self.node.meta["val"]
        found: torch.Tensor = value if position is None else value[position]
        return found

    def result_shape(self, position: int | None = None) -> tuple[Size, ...]:
        """The shape that the node (or one of its results) computes."""
        return tuple(as_size(size) for size in self.result(position).shape)

    def result_name(self, position: int | None = None) -> str:
        """The name for the node's result: that of its getitem where it has several."""
        if position is None:
            return self.name
        for user in self.node.users:
            if user.op == "call_function" and user.args[1:] == (position,):
                return user.name
        return self.fresh(f"{self.name}_{position}")

    # --- buffers ---

    def fresh(self, name: str) -> str:
        """A name that no node and no buffer has."""
        candidate, count = name, 1
        while candidate in self._taken:
            count += 1
            candidate = f"{name}_{count}"
        self._taken.add(candidate)
        return candidate

    def make_buffer(
        self,
        name: str,
        dtype: torch.dtype,
        shape: Sequence[Size],
        stride: Sequence[Size] | None = None,
        *,
        kind: BufferKind = BufferKind.INTERMEDIATE,
        layout_is_known: bool = True,
    ) -> TensorView:
        """A new buffer, contiguous unless `stride` says otherwise."""
        strides = contiguous_strides(tuple(shape)) if stride is None else tuple(stride)
        buffer = Buffer(name, kind, dtype, tuple(shape), strides, layout_is_known)
        self.buffers[name] = buffer
        return whole(buffer)

    def make_result(
        self, position: int | None = None, like: Sequence[TensorView] | None = None
    ) -> TensorView:
        """The buffer for the node's result.

        Args:
            position: Which of the node's results.
            like: What it is computed from element by element: it lies channels last if one of these does, and as in
                eager if the call returns it or attention reads it. None: it is contiguous.
        """
        value, name, shape = self.result(position), self.result_name(position), self.result_shape(position)
        stride: Sequence[Size] | None = None
        if like is not None and name in self.laid_out_as_in_eager:
            stride = eager_strides(value)
        elif len(shape) == 4 and any(map(is_channels_last, like or ())):
            stride = channels_last_strides(shape)
        return self.make_buffer(name, value.dtype, shape, stride)

    def forget(self, name: str) -> None:
        """Takes back a buffer that a lowering made before it declined."""
        del self.buffers[name]
        self.recipes.pop(name, None)
        for copies in (self._plain, self._channels_last):
            for view in [view for view, copy in copies.items() if copy.buffer == name]:
                del copies[view]

    def forget_content(self, name: str) -> None:
        """A buffer has been written into: what was computed or copied from it is no longer what it holds."""
        reading = [
            made for made, recipe in self.recipes.items() if any(v.buffer == name for v in recipe.views)
        ]
        for made in reading:
            del self.recipes[made]
        for copies in (self._plain, self._channels_last):
            for view in [view for view in copies if view.buffer == name]:
                del copies[view]

    # --- steps ---

    def readable(self, view: TensorView) -> TensorView:
        """The view, or a contiguous copy of it where its buffer's layout is not known before the call."""
        if self.buffers[view.buffer].layout_is_known:
            return view
        if view not in self._plain:
            stays = view.calls == () and is_channels_last(view)
            copy = self.make_buffer(
                self.fresh(f"{view.buffer}_{'channels_last' if stays else 'contiguous'}"),
                view.dtype,
                view.shape,
                channels_last_strides(view.shape) if stays else None,
            )
            layout = {"memory_format": torch.channels_last} if stays else {}
            self.call(
                torch.ops.aten.contiguous.default, (self.argument(view),), layout, outputs=(copy.buffer,)
            )
            self._plain[view] = copy
        return self._plain[view]

    def channels_last(self, view: TensorView) -> TensorView:
        """The view of images, or a copy of it that is channels last, made once; what only a library lays out stays."""
        is_ours = self.buffers[view.buffer].layout_is_known and view.dtype in LOOP_DTYPES
        if not is_ours or is_channels_last(view) or view.rank != 4 or not _differs(view):
            return view
        if view not in self._channels_last:
            name = self.fresh(f"{view.buffer}_channels_last")
            before, self.node = self.node, self._maker.get(view.buffer, self.node)
            self._channels_last[view] = self.copy(view, name, channels_last_strides(view.shape))
            self.node = before
        return self._channels_last[view]

    def as_in_eager(self, view: TensorView, value: torch.Tensor) -> TensorView:
        """The view, or a copy with the strides that eager gives it, which the fake tensor `value` has."""
        strides = eager_strides(value)
        if strides is None or view.dtype not in LOOP_DTYPES or has_strides(view, strides):
            return view
        if not self.buffers[view.buffer].layout_is_known and not is_channels_last(view):
            return view  # a library's: it lies as in eager already
        return self.copy(self.readable(view), stride=strides)

    def argument(self, view: TensorView) -> View:
        """The view as an argument of a library call: a copy where no strides or words describe it."""
        found = view.as_ir()
        if found is not None:
            return found
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
        found = view.as_ir()
        if (
            found is not None
            or not self.buffers[view.buffer].layout_is_known
            or view.dtype not in LOOP_DTYPES
        ):
            return self.argument(view)
        before, self.node = self.node, node
        name = node.name if node.name not in self.buffers else self.fresh(f"{node.name}_contiguous")
        copied = self.copy(view, name)
        self.node = before
        self.values[node.name] = copied
        return self.argument(copied)

    def call(
        self,
        target: torch._ops.OpOverload,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        *,
        outputs: tuple[str, ...],
        mutates: tuple[str, ...] = (),
        reason: str | None = None,
        memory_format: torch.memory_format | None = None,
    ) -> None:
        """Appends a library call."""
        items = tuple(sorted((kwargs or {}).items()))
        self.steps.append(Extern(target, args, items, outputs, mutates, reason, self.name, memory_format))

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

    def finish(self, nest: NestBuilder) -> None:
        """Appends a nest."""
        self.append(nest.finish())

    def append(self, nest: Nest) -> None:
        """Appends a finished nest. One without iterations computes nothing: what it would fill is just made."""
        if all(axis.size != 0 for axis in nest.axes):
            self.steps.append(nest)
            return
        for value in nest.body:
            if isinstance(value, Store):
                self._make_empty(self.buffers[value.buffer])

    def _make_empty(self, buffer: Buffer) -> None:
        is_made = any(isinstance(step, Extern) and buffer.name in step.outputs for step in self.steps)
        if buffer.kind is not BufferKind.INTERMEDIATE or 0 not in buffer.shape or is_made:
            return
        options = {"dtype": buffer.dtype, "device": self.result(0 if self._has_several else None).device}
        self.call(torch.ops.aten.empty.memory_format, (buffer.shape,), options, outputs=(buffer.name,))

    @property
    def _has_several(self) -> bool:
        return isinstance(self.node.meta["val"], list | tuple)

    def copy(
        self, view: TensorView, name: str | None = None, stride: Sequence[Size] | None = None
    ) -> TensorView:
        """A copy of a view, contiguous unless `stride` says otherwise."""
        name = name or self.fresh(f"{view.buffer}_contiguous")
        copy = self.make_buffer(name, view.dtype, view.shape, stride)
        if not copied_by_aten(self, view, copy):
            self.write(view, copy)
        return copy

    def copy_into(self, view: TensorView, into: TensorView, reason: str | None = None) -> None:
        """ATen's copy of the elements of a view to where `into` is."""
        given = self.argument(into), self.argument(view)
        self.call(torch.ops.aten.copy_.default, given, outputs=(), mutates=(into.buffer,), reason=reason)

    def write(self, view: TensorView, into: TensorView) -> None:
        """A nest that copies the elements of a view to where `into` (of the same shape) is."""
        if view.dtype not in LOOP_DTYPES:
            raise Decline(f"{view.dtype} is copied by ATen.")
        factors, unfit = factors_of(into.shape, [self.readable(view), into])
        if unfit:
            raise Decline("The two layouts have no common loops.")
        nest = NestBuilder(self.name, into.shape, factors, self._words)
        source = self.readable(view)
        nest.store(into, nest.load(source))
        self.finish(nest)

    def strided(self, view: TensorView) -> TensorView:
        """The view, or a contiguous copy where its dimensions have no single strides or its layout is unknown."""
        view = self.readable(view)
        return view if view.strides() is not None else self.copy(view)

    # --- elementwise ---

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
        self.recipes[target.buffer] = Recipe(tuple(views), compute)
        return target


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
