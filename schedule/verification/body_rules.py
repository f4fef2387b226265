"""Rules on one nest or one launch by itself: names, dtypes, and that it stays inside its buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import sympy
import torch

from longhand.lower.ir import (
    PRIMITIVES,
    Buffer,
    Extent,
    Extern,
    Index,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Position,
    Reduce,
    ReduceOp,
    Size,
    Store,
    Value,
    arguments,
    compute_dtype,
)
from longhand.schedule.draft import Draft
from longhand.schedule.plan import (
    Address,
    Group,
    KernelPlan,
    Launch,
    ParameterRef,
    Product,
    ScalarRef,
    SizeOf,
)
from longhand.schedule.sizes import known_at_most, plus, product, times
from longhand.schedule.verification.mask_rules import escapes
from longhand.schedule.verification.rules import PlanRule, RuleBreach, named

_ARG = frozenset({ReduceOp.ARGMAX, ReduceOp.ARGMIN})
_LOGIC = frozenset({ReduceOp.ANY, ReduceOp.ALL})

Breach = tuple[PlanRule, str]


def nest_faults(nest: Nest, draft: Draft) -> Iterator[RuleBreach]:
    """Breaches by a nest."""
    sizes = {axis.name: axis.size for axis in nest.axes}
    for rule, what in _nest_breaches(nest, sizes, draft):
        yield RuleBreach(rule, named(nest), what)


def _nest_breaches(nest: Nest, sizes: Mapping[str, Size], draft: Draft) -> Iterator[Breach]:
    if len(sizes) < len(nest.axes):
        yield PlanRule.NAMES, "two axes have one name"
    yield from _unknown_symbols(sizes.values(), draft)
    dtypes = {name: buffer.dtype for name, buffer in draft.buffers.items()}
    is_broken = False
    for breach in _body_breaches(nest.body, frozenset(sizes), dtypes):
        is_broken = True
        yield breach
    if is_broken:
        return
    for value in nest.body:
        if isinstance(value, Load | Store):
            span = _index_span(value.index, sizes)
            buffer = draft.buffers[value.buffer]
            if not value.index.values and _is_outside(span, buffer):
                if value.mask is None:
                    yield PlanRule.INSIDE, f"{value.buffer} is accessed at {_words(span)} of {_elements(buffer)}"
                elif (point := escapes(nest, value, _elements(buffer))) is not None:
                    yield PlanRule.MASKS_COVER, f"the mask lets {value.buffer} be accessed at {point}"


def launch_faults(launch: Launch, draft: Draft) -> Iterator[RuleBreach]:
    """Breaches by a launch of a kernel."""
    for rule, what in _launch_breaches(launch, draft.kernels[launch.kernel], draft):
        yield RuleBreach(rule, named(launch), what)


def _launch_breaches(launch: Launch, kernel: KernelPlan, draft: Draft) -> Iterator[Breach]:
    pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
    numbers = (len(launch.ints), len(launch.scalars))
    if numbers != (len(kernel.ints), len(kernel.scalars)):
        yield PlanRule.NAMES, "it passes another count of numbers than the kernel takes"
        return
    dtypes = {pointer.name: pointer.dtype for pointer in kernel.pointers}
    yield from _body_breaches(kernel.body, frozenset(axis.name for axis in kernel.axes), dtypes)
    yield from _lane_breaches(kernel)
    for group in launch.groups:
        if len(group.buffers) != len(pointers) or len(group.sizes) != len(kernel.axes):
            yield PlanRule.NAMES, "it passes another count of tensors or sizes than the kernel takes"
            return
        yield from _unknown_symbols(group.sizes, draft)
        buffers = {
            pointer.name: draft.buffers[name] for pointer, name in zip(pointers, group.buffers, strict=True)
        }
        for pointer in pointers:
            if buffers[pointer.name].dtype is not pointer.dtype:
                yield PlanRule.DTYPES, f"{buffers[pointer.name].name} is not {pointer.dtype}"
        yield from _reach_breaches(launch, group, kernel, buffers)


def _reach_breaches(
    launch: Launch, group: Group, kernel: KernelPlan, buffers: Mapping[str, Buffer]
) -> Iterator[Breach]:
    """Addresses without a mask that leave their tensor."""
    for position, address in kernel.addresses.items():
        value = kernel.body[position]
        if not isinstance(value, Load | Store) or value.mask is not None or address.values:
            continue
        if value.buffer not in buffers:
            continue
        span = _address_span(address, _Numbers(launch, group, kernel))
        buffer = buffers[value.buffer]
        if span is not None and _is_outside(span, buffer):
            yield PlanRule.INSIDE, f"{buffer.name} is accessed at {_words(span)} of {_elements(buffer)}"


def _lane_breaches(kernel: KernelPlan) -> Iterator[Breach]:
    """What lanes past the end hold: each guard is of a reduction, each padding of a load, and no mask loses its own."""
    for position in kernel.guards:
        if not isinstance(kernel.body[position], Reduce):
            yield PlanRule.MASKS_COVER, f"value {position} is guarded and no reduction"
    for position, other in kernel.padding.items():
        value = kernel.body[position]
        if not isinstance(value, Load):
            yield PlanRule.MASKS_COVER, f"value {position} is padded and no load"
        elif value.mask is not None and value.other != other and value.other == value.other:
            yield PlanRule.MASKS_COVER, f"value {position} has {value.other} where masked and {other} past the end"


def view_faults(step: Extern, draft: Draft) -> Iterator[RuleBreach]:
    """Breaches by the arguments of a library call."""
    for view in step.views():
        buffer = draft.buffers[view.buffer]
        if not buffer.layout_is_known or any(same_as_zero(size) for size in view.shape):
            continue
        span = _span(view.offset, zip(view.shape, view.stride, strict=True))
        if _is_outside(span, buffer):
            yield RuleBreach(PlanRule.INSIDE, named(step), f"it sees {view.buffer} at {_words(span)}")


def same_as_zero(size: Size) -> bool:
    """Whether a size is 0 for sure."""
    return isinstance(size, int) and size == 0


def _body_breaches(
    body: tuple[Value, ...], axes: frozenset[str], dtypes: Mapping[str, torch.dtype]
) -> Iterator[Breach]:
    """Positions, names of axes and buffers, dtypes."""
    for position, value in enumerate(body):
        if any(not 0 <= argument < position for argument in arguments(value)):
            yield PlanRule.WRITTEN_FIRST, f"value {position} refers to one that is not before it"
            return
        used: frozenset[str] = frozenset()
        if isinstance(value, Load | Store | Position):
            used = frozenset(axis for axis, _ in value.index.axes)
        elif isinstance(value, Reduce | Extent):
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


def _unknown_symbols(sizes: object, draft: Draft) -> Iterator[Breach]:
    known = set(draft.hints)
    for size in sizes:  # type: ignore[attr-defined]
        if isinstance(size, sympy.Expr) and (unknown := size.free_symbols - known):
            yield PlanRule.NAMES, f"the size {size} names {', '.join(map(str, unknown))}, which no input has"


class Span(NamedTuple):
    """The first and the last element that an access touches."""

    first: Size
    last: Size


def _span(offset: Size, terms: object) -> Span:
    """The span of offset + sum(step * index) with each index below its size; terms are (size, step)."""
    first = last = offset
    for size, step in terms:  # type: ignore[attr-defined]
        reach = times(step, plus(size, -1))
        if known_at_most(reach, 0):
            first = plus(first, reach)
        else:
            last = plus(last, reach)
    return Span(first, last)


def _index_span(index: Index, sizes: Mapping[str, Size]) -> Span:
    return _span(index.offset, [(sizes[axis], step) for axis, step in index.axes])


class _Numbers:
    """What the factors of an address are in one launch."""

    def __init__(self, launch: Launch, group: Group, kernel: KernelPlan) -> None:
        self.sizes = dict(zip((axis.name for axis in kernel.axes), group.sizes, strict=True))
        self.ints = dict(zip((one.name for one in kernel.ints), launch.ints, strict=True))
        self.scalars = dict(zip((one.position for one in kernel.scalars), launch.scalars, strict=True))

    def product(self, factors: Product) -> Size | None:
        """The product, or None where a factor is no whole number."""
        found: Size = 1
        for factor in factors:
            match factor:
                case SizeOf():
                    found = times(found, self.sizes[factor.axis])
                case ParameterRef():
                    found = times(found, self.ints[factor.name])
                case ScalarRef():
                    scalar = self.scalars.get(factor.position)
                    if scalar is None or isinstance(scalar, float):
                        return None
                    found = times(found, scalar)
                case _:
                    found = times(found, factor)
        return found


def _address_span(address: Address, numbers: _Numbers) -> Span | None:
    offset: Size = 0
    for factors in address.offset:
        number = numbers.product(factors)
        if number is None:
            return None
        offset = plus(offset, number)
    terms: list[tuple[Size, Size]] = []
    for axis, factors in address.axes:
        step = numbers.product(factors)
        if step is None:
            return None
        terms.append((numbers.sizes[axis], step))
    return _span(offset, terms)


def _is_outside(span: Span, buffer: Buffer) -> bool:
    """Whether it certainly leaves the buffer: of sizes that are numbers, whether it does."""
    if any(same_as_zero(size) for size in buffer.shape):
        return False
    return known_at_most(span.first, -1) or known_at_most(_elements(buffer), span.last)


def _elements(buffer: Buffer) -> Size:
    """How many elements lie from a buffer's first to its last."""
    if not buffer.layout_is_known:
        return product(buffer.shape)
    return plus(_span(0, zip(buffer.shape, buffer.stride, strict=True)).last, 1)


def _words(span: Span) -> str:
    return f"{span.first} to {span.last}"
