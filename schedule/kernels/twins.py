"""Kernels of one unit that differ in strides, offsets, factors or how high they are alone: given these, they are one.

A slice of a wider tensor is walked by a stride that is an argument, a whole tensor by the size of its rows. Where the
same math is done to both, the whole one is given its stride, too: its rows begin where they began, and nothing is
computed more. What begins where its tensor does is given an offset of 0, if another begins elsewhere: q, k and v of
one product are copied by one kernel. So is a factor that is another number in each of them
(`schedule.differing_numbers` knows that of nests of equal sizes, and of any number). Kernels that walk down columns
of few rows in the deep stages of a model, and of many in the first ones, have another tile each: one kernel has the
high tile, cut to the rows of a call. A tensor whose axes lie in another order (heads before tokens, or behind them)
is walked by strides, too, as long as what lies side by side does in both. Where a kernel reads several parts of one
tensor, each of them may begin anywhere.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import torch

from longhand.lower.ir import Constant, Load, Pointwise, PointwiseOp, Scalar, Store, Value, arguments
from longhand.schedule.kernels.address_terms import ParameterRef, Product, ScalarRef
from longhand.schedule.kernels.kernel_plan import KernelPlan, Tunable
from longhand.schedule.kernels.key import CanonicalPlan, kind_of_number
from longhand.schedule.kernels.space import ANY_WALK, Walk

_ANY = ("any",)


@dataclasses.dataclass(frozen=True)
class Given:
    """What a kernel is given as arguments although it could know it.

    Attributes:
        strides: (place of the pointer, place of the axis) of strides.
        offsets: The places of pointers that are walked from an offset on.
        factors: The positions in the body of numbers.
        heights: Whether its calls are of columns of few rows and of many.
        walk: The axes that it walks along, though its own tensors would do with fewer.
    """

    strides: frozenset[tuple[int, int]] = frozenset()
    offsets: frozenset[int] = frozenset()
    factors: frozenset[int] = frozenset()
    heights: bool = False
    walk: Walk = ANY_WALK

    def along(self, walk: Walk | None) -> Given:
        """The same of a kernel that is walked so."""
        return self if walk is None else dataclasses.replace(self, walk=walk)

    def with_height(self, tunables: tuple[Tunable, ...]) -> tuple[Tunable, ...]:
        """Tunables of a kernel for columns of any height."""
        return tuple(
            dataclasses.replace(one, by_size=one.by_size or (self.heights and one.by_height))
            for one in tunables
        )

    def with_factors(self, body: tuple[Value, ...]) -> tuple[Value, ...]:
        """A body that is given its factors."""
        return tuple(
            (
                Scalar(float(value.value), value.dtype, value.name, value.origin)
                if position in self.factors and isinstance(value, Constant)
                else value
            )
            for position, value in enumerate(body)
        )


NOTHING_GIVEN = Given()


def find_twins(
    kernels: Mapping[str, KernelPlan], in_any_order: bool = False
) -> Iterator[tuple[tuple[str, ...], tuple[Given, ...]]]:
    """Groups of kernels that may be one, by key, each with what its kernels must be given for that: little, or more.

    Args:
        kernels: By key.
        in_any_order: Of tensors whose axes lie in memory in another order, too.
    """
    alike: dict[object, list[str]] = {}
    for key, plan in kernels.items():
        orders = () if in_any_order else _orders(plan)
        alike.setdefault((_BodySignature(plan).everything(), orders), []).append(key)
    for keys in alike.values():
        if len(keys) > 1:
            plans = [kernels[key] for key in keys]
            strides = frozenset(_strides(plans))
            given = Given(
                strides,
                frozenset(_offsets(plans)),
                frozenset(_factors(plans)),
                heights=len({plan.tunables for plan in plans if _is_of_height(plan)}) > 1,
            )
            if all(_are_apart(given.with_factors(plan.body)) for plan in plans):
                # A stride says those of the axes around it, where these stand in one order.
                every = dataclasses.replace(given, strides=frozenset(_every_stride(plans[0], strides)))
                yield tuple(keys), tuple(dict.fromkeys((given, every)))


def _orders(plan: KernelPlan) -> tuple[tuple[int, ...] | None, ...]:
    """The order in memory of each tensor's axes."""
    places = {axis.name: place for place, axis in enumerate(plan.axes)}
    return tuple(
        None if pointer.dims is None else tuple(places[axis] for axis in pointer.dims)
        for pointer in plan.pointers
    )


class _BodySignature(CanonicalPlan):
    """What a plan has in common with others that differ in strides, offsets and factors alone."""

    def tunables(self) -> tuple[Any, ...]:
        return (
            tuple((one.name,) for one in self.plan.tunables)
            if _is_of_height(self.plan)
            else super().tunables()
        )

    def integers(self) -> tuple[Any, ...]:
        return _ANY

    def scalars(self) -> tuple[Any, ...]:
        return tuple(
            kind_of_number(parameter)
            for parameter in self.plan.scalars
            if not _is_factor(self.plan.body, parameter.position)
        )

    def value(self, position: int, value: Value) -> tuple[Any, ...]:
        if _is_factor(self.plan.body, position):
            return ("a factor", value.name)
        return super().value(position, value)

    def address(self, position: int) -> tuple[Any, ...]:
        address = self.plan.addresses[position]
        along = tuple(
            (self.axis[axis], _ANY if _is_stride(product) else self.product(product))
            for axis, product in address.axes
        )
        _, by_value, offset = super().address(position)
        begin = _begin(self.plan, position) if may_begin_anywhere(self.plan, position) else offset
        return (along, by_value, begin)

    def product(self, factors: Product) -> tuple[Any, ...]:
        named = super().product(factors)
        return tuple(
            _ANY if isinstance(one, ParameterRef) else name for one, name in zip(factors, named, strict=True)
        )


def _is_of_height(plan: KernelPlan) -> bool:
    return any(tunable.by_height for tunable in plan.tunables)


def _is_stride(product: Product) -> bool:
    """Whether a product of sizes and strides may be an argument: elements side by side are to be seen as such."""
    return bool(product) and not any(isinstance(factor, ScalarRef | int) for factor in product)


def may_begin_anywhere(plan: KernelPlan, position: int) -> bool:
    """Whether where a value is read or written in its tensor may be an argument, as of all that is read of that."""
    value = plan.body[position]
    return isinstance(value, Load | Store) and all(
        _is_offset(plan.addresses[at].offset) for at in _accesses_of(plan, value.buffer)
    )


def _accesses_of(plan: KernelPlan, pointer: str) -> list[int]:
    body = enumerate(plan.body)
    return [at for at, value in body if isinstance(value, Load | Store) and value.buffer == pointer]


def _is_offset(offset: tuple[Product, ...]) -> bool:
    match offset:
        case () | ((ParameterRef(),),):
            return True
    return False


def _begin(plan: KernelPlan, position: int) -> tuple[Any, ...]:
    """Which access of its tensor begins first where a value does: parts at one place have one argument."""
    value = plan.body[position]
    assert isinstance(value, Load | Store)
    begins = [plan.addresses[at].offset for at in _accesses_of(plan, value.buffer)]
    return (*_ANY, begins.index(plan.addresses[position].offset))


def _is_factor(body: Sequence[Value], position: int) -> bool:
    """Whether a value is a number by which all that reads it is multiplied or divided."""
    match body[position]:
        case Constant(value=number, dtype=torch.float32) | Scalar(value=float(number), dtype=torch.float32):
            users = [user for user in body if position in arguments(user)]
            return math.isfinite(number) and all(map(_is_scaling, users))
    return False


def _is_scaling(value: Value) -> TypeGuard[Pointwise]:
    return isinstance(value, Pointwise) and value.op in (PointwiseOp.MUL, PointwiseOp.DIV)


def _factors(plans: Sequence[KernelPlan]) -> Iterator[int]:
    """The positions of factors that are not the same number in all of the plans."""
    for position in range(len(plans[0].body)):
        if _is_factor(plans[0].body, position):
            kinds = {repr(dataclasses.replace(plan.body[position], origin="")) for plan in plans}
            if len(kinds) > 1:
                yield position


def _strides(plans: Sequence[KernelPlan]) -> Iterator[tuple[int, int]]:
    """(place of the pointer, place of the axis) of strides that are not the same product in all of the plans."""
    canonical = [CanonicalPlan(plan) for plan in plans]
    first = canonical[0]
    for position, value in enumerate(plans[0].body):
        if isinstance(value, Load | Store):
            for place, (axis, _) in enumerate(plans[0].addresses[position].axes):
                products = {one.product(one.plan.addresses[position].axes[place][1]) for one in canonical}
                if len(products) > 1:
                    yield first.pointer[value.buffer], first.axis[axis]


def _every_stride(plan: KernelPlan, strides: frozenset[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The strides of all pointers that are given one."""
    canonical = CanonicalPlan(plan)
    given = {pointer for pointer, _ in strides}
    for position, value in enumerate(plan.body):
        if isinstance(value, Load | Store) and canonical.pointer[value.buffer] in given:
            for axis, product in plan.addresses[position].axes:
                if _is_stride(product):
                    yield canonical.pointer[value.buffer], canonical.axis[axis]


def _offsets(plans: Sequence[KernelPlan]) -> Iterator[int]:
    """The places of pointers that not all of the plans walk from an offset on."""
    first = CanonicalPlan(plans[0])
    for position, value in enumerate(plans[0].body):
        begins = {bool(plan.addresses[position].offset) for plan in plans if position in plan.addresses}
        if isinstance(value, Load | Store) and may_begin_anywhere(plans[0], position) and len(begins) > 1:
            yield first.pointer[value.buffer]


def _are_apart(body: Sequence[Value]) -> bool:
    """Whether no two arguments of a body are the same number: they would be one argument."""
    numbers = [(repr(value.value), value.dtype) for value in body if isinstance(value, Scalar)]
    return len(set(numbers)) == len(numbers)
