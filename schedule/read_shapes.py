"""The shapes of buffers: the ones in which libraries read them.

A layer norm of (batch, seq, dim) whose result a matmul reads as (batch * seq, dim) is allocated as that: a view costs a
microsecond or two of Python in each of a hundred places, and a line that tells nothing. To a kernel a buffer is memory
without a shape, and buffers of one shape change alike, so that equal layers stay equal. Only where a reader drops
dimensions of one element, as the head of a model does that pools, what no call reads is left: the same values in stages
of other widths are. What the caller sees keeps its shape.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import Literal
from longhand.lower.ir import Buffer, BufferKind, Contraction, Extern, Nest, Size, Step, Store, View, ViewCall
from longhand.schedule.sizes import as_size, contiguous_strides

_aten = torch.ops.aten
_RESHAPES = frozenset(
    {_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default, _aten._reshape_alias.default}
)

Shape = tuple[Size, ...]


@dataclasses.dataclass(frozen=True)
class ReadShapes:
    """Steps, buffers and results, once shapes are chosen."""

    steps: tuple[Step, ...]
    buffers: dict[str, Buffer]
    results: tuple[View | Literal, ...]


def shape_for_readers(
    steps: Iterable[Step],
    buffers: Mapping[str, Buffer],
    results: Sequence[View | Literal],
    nodes: Mapping[str, fx.Node],
) -> ReadShapes:
    """The same with fewer views.

    Args:
        steps: Before kernels are planned.
        buffers: By name.
        results: What the call returns.
        nodes: The captured graph's, which know what shape each view has.
    """
    steps, results = tuple(steps), tuple(results)
    own = _our_buffers(steps, buffers)
    kept = frozenset(view.buffer for view in results if isinstance(view, View))
    read_inside = [view for step in steps for view in _views(step)]
    of_shape: dict[Shape, Counter[Shape]] = {}
    for view in read_inside:
        if view.buffer in own - kept:
            shape = buffers[view.buffer].shape
            of_shape.setdefault(shape, Counter())[_read_as(view, shape, nodes)] += 1
    chosen = {shape: _most_read(shape, counts) for shape, counts in of_shape.items()}
    is_read = {view.buffer for view in read_inside}
    shapes = {name: chosen.get(buffers[name].shape, buffers[name].shape) for name in own - kept}
    shapes = {
        name: shape
        for name, shape in shapes.items()
        if name in is_read or not _is_squeezed(shape, buffers[name].shape)
    }
    for name in own & kept - is_read:
        returned = {_read_as(view, buffers[name].shape, nodes) for view in _views_of(name, results)}
        if len(returned) == 1:
            shapes[name] = returned.pop()
    changed = {
        name: dataclasses.replace(buffers[name], shape=shape, stride=contiguous_strides(shape))
        for name, shape in shapes.items()
        if shape != buffers[name].shape
    }
    if not changed:
        return ReadShapes(steps, dict(buffers), results)

    def read(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(read, value))
        if not isinstance(value, View) or value.buffer not in changed:
            return value
        return _through(value, buffers[value.buffer].shape, changed[value.buffer].shape, nodes)

    return ReadShapes(
        tuple(_reading(step, read) for step in steps),
        {**buffers, **changed},
        tuple(map(read, results)),
    )


def _views_of(name: str, results: Iterable[View | Literal]) -> list[View]:
    return [view for view in results if isinstance(view, View) and view.buffer == name]


def _our_buffers(steps: Iterable[Step], buffers: Mapping[str, Buffer]) -> frozenset[str]:
    """The contiguous buffers that only our own loops write."""
    made = {value.buffer for step in steps for value in _body(step) if isinstance(value, Store)}
    called = {name for step in steps for name in _made_by_calls(step)}
    return frozenset(
        name
        for name in made - called
        if buffers[name].kind is BufferKind.INTERMEDIATE and buffers[name].is_contiguous
    )


def _body(step: Step) -> Iterator[Any]:
    for nest in (step,) if isinstance(step, Nest) else step.steps if isinstance(step, Contraction) else ():
        yield from nest.body if isinstance(nest, Nest) else ()


def _made_by_calls(step: Step) -> tuple[str, ...]:
    call = step.call if isinstance(step, Contraction) else step
    return (*call.outputs, *call.mutates) if isinstance(call, Extern) else ()


def _views(step: Step) -> Iterator[View]:
    call = step.call if isinstance(step, Contraction) else step
    if isinstance(call, Extern):
        yield from call.views()


def _read_as(view: View, own: Shape, nodes: Mapping[str, fx.Node]) -> Shape:
    """The shape that a call gives a buffer before it does anything else with it."""
    n_reshapes = next(
        (place for place, call in enumerate(view.calls) if call.target not in _RESHAPES), len(view.calls)
    )
    if n_reshapes == 0:
        return own
    if n_reshapes == len(view.calls):
        return view.shape
    node = nodes.get(view.calls[n_reshapes - 1].origin)
    value = None if node is None else node.meta.get("val")
    return tuple(map(as_size, value.shape)) if isinstance(value, torch.Tensor) else own


def _most_read(own: Shape, counts: Counter[Shape]) -> Shape:
    """The shape of most reads; the shape that it has where none has more."""
    shape, count = counts.most_common(1)[0]
    return shape if count > counts[own] else own


def _is_squeezed(shape: Shape, own: Shape) -> bool:
    """Whether a shape is another one without dimensions of one element."""
    return len(shape) < len(own) and [size for size in own if size != 1] == [
        size for size in shape if size != 1
    ]


def _reading(step: Step, read: Callable[[Any], Any]) -> Step:
    """A step, its call's arguments read anew."""
    if isinstance(step, Nest):
        return step
    call = step.call if isinstance(step, Contraction) else step
    call = dataclasses.replace(
        call, args=read(call.args), kwargs=tuple((name, read(value)) for name, value in call.kwargs)
    )
    return dataclasses.replace(step, call=call) if isinstance(step, Contraction) else call


def _through(view: View, old: Shape, new: Shape, nodes: Mapping[str, fx.Node]) -> View:
    """The same elements, of a buffer whose shape was `old`."""
    if _read_as(view, old, nodes) == new:
        calls = list(view.calls)
        while calls and calls[0].target in _RESHAPES:
            calls.pop(0)
        return dataclasses.replace(view, calls=tuple(calls))
    if view.calls and view.calls[0].target in _RESHAPES:
        return view  # from any contiguous shape to its own
    return dataclasses.replace(view, calls=(ViewCall(_aten.view.default, (list(old),)), *view.calls))
