"""Rules on one launch by itself: names, dtypes, lanes past the end, and that it stays inside its buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from longhand.lower.ir import Buffer, Load, Reduce, Size, Store
from longhand.lower.rules.breaches import PlanRule, RuleBreach
from longhand.lower.rules.nests import Breach, body_breaches, unknown_symbols
from longhand.lower.rules.spans import Span, is_outside, n_elements, span_of
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
from longhand.schedule.sizes import plus, times


def launch_words(launch: Launch) -> str:
    """A launch in words, for errors."""
    return f"the launch for {', '.join(launch.origins)} on {', '.join(launch.touched)}"


def launch_faults(launch: Launch, draft: Draft) -> Iterator[RuleBreach]:
    """Breaches by a launch of a kernel."""
    for rule, what in _launch_breaches(launch, draft.kernels[launch.kernel], draft):
        yield RuleBreach(rule, launch_words(launch), what)


def _launch_breaches(launch: Launch, kernel: KernelPlan, draft: Draft) -> Iterator[Breach]:
    pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
    numbers = (len(launch.ints), len(launch.scalars))
    if numbers != (len(kernel.ints), len(kernel.scalars)):
        yield PlanRule.NAMES, "it passes another count of numbers than the kernel takes"
        return
    dtypes = {pointer.name: pointer.dtype for pointer in kernel.pointers}
    yield from body_breaches(kernel.body, frozenset(axis.name for axis in kernel.axes), dtypes)
    yield from _lane_breaches(kernel)
    for group in launch.groups:
        if len(group.buffers) != len(pointers) or len(group.sizes) != len(kernel.axes):
            yield PlanRule.NAMES, "it passes another count of tensors or sizes than the kernel takes"
            return
        yield from unknown_symbols(group.sizes, draft.hints.keys())
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
        if span is not None and is_outside(span, buffer):
            yield PlanRule.INSIDE, f"{buffer.name} is accessed at {span} of {n_elements(buffer)}"


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
            yield (
                PlanRule.MASKS_COVER,
                f"value {position} has {value.other} where masked and {other} past the end",
            )


class _Numbers:
    """What the factors of an address are in one launch."""

    def __init__(self, launch: Launch, group: Group, kernel: KernelPlan) -> None:
        self.sizes = dict(zip((axis.name for axis in kernel.axes), group.sizes, strict=True))
        self.ints = dict(zip((one.name for one in kernel.ints), launch.ints, strict=True))
        self.scalars = dict(zip((one.position for one in kernel.scalars), launch.scalars, strict=True))

    def product(self, factors: Product) -> Size | None:
        """The product, or None where a factor is no whole number."""
        total: Size = 1
        for factor in factors:
            match factor:
                case SizeOf():
                    total = times(total, self.sizes[factor.axis])
                case ParameterRef():
                    total = times(total, self.ints[factor.name])
                case ScalarRef():
                    scalar = self.scalars.get(factor.position)
                    if scalar is None or isinstance(scalar, float):
                        return None
                    total = times(total, scalar)
                case _:
                    total = times(total, factor)
        return total


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
    return span_of(offset, terms)
