"""Rules on one nest or one library call by itself: names, dtypes, and that it stays inside its buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

import sympy
import torch

from longhand.lower.ir import (
    PRIMITIVES,
    AxisSize,
    Extern,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Size,
    Store,
    Value,
    arguments,
    compute_dtype,
)
from longhand.lower.rules.adding import adding_problem
from longhand.lower.rules.breaches import PlanRule, RuleBreach, Surroundings, step_words
from longhand.lower.rules.masks import escapes
from longhand.lower.rules.spans import index_span, is_outside, n_elements, same_as_zero, span_of

_ARG = frozenset({ReduceOp.ARGMAX, ReduceOp.ARGMIN})
_LOGIC = frozenset({ReduceOp.ANY, ReduceOp.ALL})

Breach = tuple[PlanRule, str]


def nest_faults(nest: Nest, around: Surroundings) -> Iterator[RuleBreach]:
    """Breaches by a nest."""
    sizes = {axis.name: axis.size for axis in nest.axes}
    for rule, what in _nest_breaches(nest, sizes, around):
        yield RuleBreach(rule, step_words(nest), what)


def _nest_breaches(nest: Nest, sizes: Mapping[str, Size], around: Surroundings) -> Iterator[Breach]:
    if len(sizes) < len(nest.axes):
        yield PlanRule.NAMES, "two axes have one name"
    yield from unknown_symbols(sizes.values(), around.symbols)
    is_broken = False
    for breach in body_breaches(nest.body, frozenset(sizes), around.dtypes):
        is_broken = True
        yield breach
    if is_broken:
        return
    if (problem := adding_problem(nest)) is not None:
        yield PlanRule.ADDS, problem
    for value in nest.body:
        if isinstance(value, Load | Store):
            span = index_span(value.index, sizes)
            buffer = around.buffers[value.buffer]
            if not value.index.values and is_outside(span, buffer):
                if value.mask is None:
                    yield PlanRule.INSIDE, f"{value.buffer} is accessed at {span} of {n_elements(buffer)}"
                elif (point := escapes(nest, value, n_elements(buffer))) is not None:
                    yield PlanRule.MASKS_COVER, f"the mask lets {value.buffer} be accessed at {point}"


def view_faults(step: Extern, around: Surroundings) -> Iterator[RuleBreach]:
    """Breaches by the arguments of a library call."""
    for view in step.views():
        buffer = around.buffers.get(view.buffer)
        if buffer is None:
            yield RuleBreach(PlanRule.NAMES, step_words(step), f"there is no buffer {view.buffer}")
            continue
        if not buffer.layout_is_known or any(same_as_zero(size) for size in view.shape):
            continue
        span = span_of(view.offset, zip(view.shape, view.stride, strict=True))
        if is_outside(span, buffer):
            yield RuleBreach(PlanRule.INSIDE, step_words(step), f"it sees {view.buffer} at {span}")


def body_breaches(
    body: tuple[Value, ...], axes: frozenset[str], dtypes: Mapping[str, torch.dtype]
) -> Iterator[Breach]:
    """Positions, names of axes and buffers, dtypes."""
    for position, value in enumerate(body):
        if any(not 0 <= argument < position for argument in arguments(value)):
            yield PlanRule.WRITTEN_FIRST, f"value {position} refers to one that is not before it"
            return
        used: frozenset[str] = frozenset()
        if isinstance(value, Load | Store | IndexExpression):
            used = frozenset(axis for axis, _ in value.index.axes)
        elif isinstance(value, Reduce | AxisSize):
            used = frozenset(value.axes)
        for axis in sorted(used - axes):
            yield PlanRule.NAMES, f"value {position} names the axis {axis}, which is not there"
        if isinstance(value, Load | Store) and value.buffer not in dtypes:
            yield PlanRule.NAMES, f"there is no buffer {value.buffer}"
            return
        what = _dtype_problem(value, body, dtypes)
        if what is not None:
            yield PlanRule.DTYPES, f"value {position}: {what}"


def _dtype_problem(value: Value, body: tuple[Value, ...], dtypes: Mapping[str, torch.dtype]) -> str | None:
    match value:
        case Load():
            expected = compute_dtype(dtypes[value.buffer])
            is_right = value.dtype is expected and _is_bool(body, value.mask)
            return None if is_right else f"a load of {dtypes[value.buffer]} yields {value.dtype}"
        case Store():
            stored = _dtype(body[value.value])
            is_right = stored is compute_dtype(dtypes[value.buffer]) and _is_bool(body, value.mask)
            return None if is_right else f"{stored} is stored as {dtypes[value.buffer]}"
        case Reduce():
            return _reduce_problem(value, _dtype(body[value.arg]))
        case Pointwise():
            return _pointwise_problem(value, [_dtype(body[argument]) for argument in value.args])
    return None


def _reduce_problem(value: Reduce, argument: torch.dtype) -> str | None:
    if value.op in _ARG:
        is_right = value.dtype is torch.int64
    elif value.op in _LOGIC:
        is_right = value.dtype is argument is torch.bool
    else:
        is_right = value.dtype is argument
    return None if is_right else f"{value.op.value} of {argument} yields {value.dtype}"


def _pointwise_problem(value: Pointwise, given: list[torch.dtype]) -> str | None:
    primitive = PRIMITIVES[value.op]
    if len(given) != primitive.n_arguments:
        return f"{value.op.value} takes {primitive.n_arguments} arguments, not {len(given)}"
    if value.op is PointwiseOp.CAST:
        is_right = True
    elif value.op is PointwiseOp.WHERE:
        is_right = given[0] is torch.bool and given[1] is given[2] is value.dtype
    elif primitive.yields_bool:
        is_right = value.dtype is torch.bool and given[0] is given[-1]
    else:
        is_right = all(dtype is value.dtype for dtype in given)
    return None if is_right else f"{value.op.value} of {', '.join(map(str, given))} yields {value.dtype}"


def _is_bool(body: tuple[Value, ...], mask: int | None) -> bool:
    return mask is None or _dtype(body[mask]) is torch.bool


def _dtype(value: Value) -> torch.dtype:
    assert not isinstance(value, Store)
    return value.dtype


def unknown_symbols(sizes: Iterable[Size], symbols: Set[sympy.Symbol]) -> Iterator[Breach]:
    """Symbols of sizes that nothing tells."""
    for size in sizes:
        if isinstance(size, sympy.Expr) and (unknown := size.free_symbols - symbols):
            yield PlanRule.NAMES, f"the size {size} names {', '.join(map(str, unknown))}, which no input has"
