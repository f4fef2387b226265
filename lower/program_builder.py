"""The program under construction: the node that is being lowered, buffers and steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from longhand.capture.graph import AliasKind, CapturedGraph, Provenance
from longhand.lower.body import Size, Store
from longhand.lower.builder import Handle, Number
from longhand.lower.ir import Buffer, BufferKind, Derivation, Derived, Extern, Nest, Step
from longhand.lower.layouts import (
    attention_operands,
    channels_last_strides,
    eager_strides,
    is_channels_last,
    is_split_channels_last,
    split_channels_last_strides,
)
from longhand.lower.nest import NestBuilder
from longhand.lower.sizes import as_size, contiguous_strides
from longhand.lower.views import TensorView, whole


@dataclasses.dataclass(frozen=True)
class DeferredProducer:
    """How the elements of an intermediate follow from others, so that `cat` and `pad` can compute them in place.

    Attributes:
        views: What is read, each of the intermediate's shape.
        compute: The value from a nest and the loaded elements of `views`.
    """

    views: tuple[TensorView, ...]
    compute: Callable[[NestBuilder, list[Handle]], Handle]


class ProgramBuilder:
    """The program under construction, seen from the node that is being lowered.

    Attributes:
        graph: The captured graph.
        node: The node being lowered; the name of what it makes and the origin of every value.
        buffers: Every buffer so far, by name.
        steps: The steps so far.
        deferred_producers: For intermediates made by one elementwise nest, how.
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
        # What is only saved for the backward pass lies as it is made: no caller sees it.
        self.laid_out_as_in_eager = attention_operands(graph) | {
            output.value
            for output in graph.outputs[: len(graph.outputs) - graph.n_saved]
            if isinstance(output.value, str) and output.alias is AliasKind.FRESH
        }
        self.buffers: dict[str, Buffer] = {}
        self.steps: list[Step] = []
        self.deferred_producers: dict[str, DeferredProducer] = {}
        self.fills: dict[str, Number | sympy.Expr] = {}
        self.progressions: dict[str, tuple[Size, Size]] = {}
        self.returned: set[str] = set()
        self.host: frozenset[str] = frozenset()
        self.host_buffers: set[str] = set()
        self.values: dict[str, Any] = {}
        self.node: fx.Node = next(iter(graph.graph.nodes))
        self._words: Mapping[sympy.Expr, str] = {entry.symbol: entry.name for entry in graph.symbols}
        self._maker = {node.name: node for node in graph.graph.nodes if node.op == "call_function"}
        self._nodes = {node.name for node in graph.graph.nodes}
        self._taken = {*taken, *self._nodes}
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
        origin: Provenance = Provenance.of(self.node)
        return origin.local or origin.role or None

    def result(self, position: int | None = None) -> torch.Tensor:
        """The fake tensor that the node (or one of its results) computes."""
        value = self.node.meta["val"]
        tensor: torch.Tensor = value if position is None else value[position]
        return tensor

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

    def unread_result(self, name: str, position: int | None) -> Derived | None:
        """What a result is whose name is no node's: no node takes it."""
        is_unread = position is not None and name not in self._nodes
        return Derived(Derivation.RESULT, self.name, position) if is_unread else None

    @property
    def _has_several(self) -> bool:
        return isinstance(self.node.meta["val"], list | tuple)

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
        derived: Derived | None = None,
    ) -> TensorView:
        """A new buffer, contiguous unless `stride` says otherwise."""
        strides = contiguous_strides(tuple(shape)) if stride is None else tuple(stride)
        buffer = Buffer(name, kind, dtype, tuple(shape), strides, layout_is_known, derived)
        self.buffers[name] = buffer
        return whole(buffer)

    def derive(
        self,
        how: Derivation,
        of: str,
        dtype: torch.dtype,
        shape: Sequence[Size],
        stride: Sequence[Size] | None = None,
        *,
        layout_is_known: bool = True,
    ) -> TensorView:
        """A new buffer for what no node is called after, contiguous unless `stride` says otherwise."""
        name = self.fresh(f"{of}_{how.value}")
        return self.make_buffer(
            name, dtype, shape, stride, layout_is_known=layout_is_known, derived=Derived(how, of)
        )

    def make_result(
        self, position: int | None = None, like: Sequence[TensorView] | None = None
    ) -> TensorView:
        """The buffer for the node's result.

        Args:
            position: Which of the node's results.
            like: What it is computed from element by element: it lies channels last if one of these does (or images
                whose channels were taken apart), and as in eager if the call returns it or attention reads it. None:
                it is contiguous.
        """
        value, name, shape = self.result(position), self.result_name(position), self.result_shape(position)
        stride: Sequence[Size] | None = None
        if like is not None and name in self.laid_out_as_in_eager:
            stride = eager_strides(value)
        elif len(shape) == 4 and any(map(is_channels_last, like or ())):
            stride = channels_last_strides(shape)
        elif any(tuple(view.shape) == tuple(shape) and is_split_channels_last(view) for view in like or ()):
            stride = split_channels_last_strides(shape)
        return self.make_buffer(name, value.dtype, shape, stride, derived=self.unread_result(name, position))

    def forget(self, name: str) -> None:
        """Takes back a buffer that a lowering made before it declined."""
        del self.buffers[name]
        self.deferred_producers.pop(name, None)
        for copies in (self._plain, self._channels_last):
            for view in [view for view, copy in copies.items() if copy.buffer == name]:
                del copies[view]

    def forget_content(self, name: str) -> None:
        """A buffer has been written into: what was computed or copied from it is no longer what it holds, nor is what
        was known of it."""
        reading = [
            made
            for made, producer in self.deferred_producers.items()
            if any(v.buffer == name for v in producer.views)
        ]
        for made in {name, *reading}:
            self.deferred_producers.pop(made, None)
        self.fills.pop(name, None)
        self.progressions.pop(name, None)
        for copies in (self._plain, self._channels_last):
            for view in [view for view in copies if view.buffer == name]:
                del copies[view]

    # --- steps ---

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
        for name in mutates:
            self.forget_content(name)

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
