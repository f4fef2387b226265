"""Pairs whose elements lie side by side, as rotary embeddings turn them: even elements and odd ones, no halves.

``x[..., 0::2]`` and ``x[..., 1::2]`` are read two elements apart, one of them from one element further on. Where pairs
are an axis of their own, the second element begins behind half of two, and no reader thinks of that as of a half.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.capture.graph import Role
from longhand.lower.ir import Load, Pointwise, PointwiseOp, Scalar, Store
from longhand.schedule.names.shared.callers import Caller, Callers
from longhand.schedule.names.words import ordinals
from longhand.schedule.plan import KernelPlan, ParameterRef, Product, ScalarRef, SizeOf, limit_along

ODD_OFFSET, IS_EVEN = "odd_offset", "is_even"
EVEN, ODD = "even", "odd"
_BOTH = (EVEN, ODD)
_HALVES: Mapping[str | None, str] = {Role.FIRST_HALF: EVEN, Role.SECOND_HALF: ODD}


def with_pairs(plan: KernelPlan, callers: Callers) -> KernelPlan:
    """The kernel, with other words for the halves of two elements."""
    ends = (limit_along(plan, place, PointwiseOp.LT) for place in range(len(plan.body)))
    halves = [(axis, limit) for axis, limit in filter(None, ends) if _is_half(plan, limit)]
    of_pairs = {limit for axis, limit in halves if _are_two(plan, callers, axis, limit)}
    if not of_pairs:
        return plan
    body = list(plan.body)
    for place, value in enumerate(body):
        if isinstance(value, Scalar) and place in of_pairs:
            body[place] = dataclasses.replace(value, name=ODD_OFFSET)
        elif isinstance(value, Pointwise) and value.name is Role.IN_FIRST_HALF:
            limit = limit_along(plan, place, PointwiseOp.LT)
            is_of_pair = limit is not None and limit[1] in of_pairs
            body[place] = dataclasses.replace(value, name=IS_EVEN) if is_of_pair else value
        elif isinstance(value, Load) and value.name in _HALVES:
            body[place] = dataclasses.replace(value, name=None)  # the user's x1, or even_x
        elif isinstance(value, Pointwise) and value.name in _HALVES:
            body[place] = dataclasses.replace(value, name=_HALVES[value.name])
    scalars = (
        dataclasses.replace(one, name=ODD_OFFSET) if one.position in of_pairs else one for one in plan.scalars
    )
    return dataclasses.replace(plan, body=tuple(body), scalars=tuple(scalars))


def _is_half(plan: KernelPlan, position: int) -> bool:
    return getattr(plan.body[position], "name", None) is Role.HALF


def _are_two(plan: KernelPlan, callers: Callers, axis: str, half: int) -> bool:
    """Whether all calls halve an axis of two elements there, which lie side by side in what is written."""
    written = (plan.addresses[place] for place, value in enumerate(plan.body) if isinstance(value, Store))
    if any(dict(address.axes).get(axis, ()) != () for address in written):
        return False
    places = [place for place, one in enumerate(plan.scalars) if one.position == half]
    axes = [one.name for one in plan.axes]
    return all(
        one.launch.scalars[place] == 1 and one.launch.sizes[axes.index(axis)] == 2
        for one in callers.every
        for place in places
    )


def words_of_pairs(plan: KernelPlan, callers: Callers, pointers: Mapping[str, str]) -> dict[int, str]:
    """By position of the body: ``even_x`` and ``odd_x``, of what is read of each pair in all calls."""
    walks: dict[tuple[str, frozenset[tuple[str, Product]]], list[int]] = {}
    for place, value in enumerate(plan.body):
        if isinstance(value, Load) and not plan.addresses[place].values and value.buffer in pointers:
            walks.setdefault((value.buffer, frozenset(plan.addresses[place].axes)), []).append(place)
    words: dict[int, str] = {}
    for (buffer, _), places in walks.items():
        sides = {_sides(plan, one, places) for one in callers.every}
        if len(sides) != 1:
            continue
        free = {
            side: [f"{side}_{pointers[buffer]}", *ordinals(f"{side}_{pointers[buffer]}")] for side in _BOTH
        }
        words |= {place: free[side].pop(0) for place, side in zip(places, sides.pop(), strict=False)}
    return words


def _sides(plan: KernelPlan, caller: Caller, places: Sequence[int]) -> tuple[str, ...]:
    """Of each load whether it reads even elements in a call, or odd ones; empty where that is no matter of pairs."""
    known = _CallNumbers(plan, caller)
    sizes = dict(zip((axis.name for axis in plan.axes), caller.launch.sizes, strict=True))
    axes = plan.addresses[places[0]].axes
    steps = [known.value(product) for axis, product in axes if sizes[axis] != 1]
    begins = [known.total(plan.addresses[place].offset) for place in places]
    numbers = [one for one in (*steps, *begins) if one is not None]
    if len(numbers) < len(steps) + len(begins) or not steps or min(numbers[: len(steps)]) != 2:
        return ()
    if any(one % 2 for one in numbers[: len(steps)]):
        return ()
    sides = tuple(_BOTH[one % 2] for one in numbers[len(steps) :])
    return sides if {*sides} == {*_BOTH} else ()


class _CallNumbers:
    """The numbers of one call.

    Args:
        plan: The kernel.
        caller: Its call.
    """

    def __init__(self, plan: KernelPlan, caller: Caller) -> None:
        launch = caller.launch
        self._axes = dict(zip((axis.name for axis in plan.axes), launch.sizes, strict=True))
        self._ints = dict(zip((one.name for one in plan.ints), launch.ints, strict=True))
        self._scalars = dict(zip((one.position for one in plan.scalars), launch.scalars, strict=True))

    def value(self, product: Product) -> int | None:
        """What a product is; None where it is no number."""
        result = 1
        for factor in product:
            match factor:
                case SizeOf(axis):
                    number: object = self._axes[axis]
                case ParameterRef(name):
                    number = self._ints[name]
                case ScalarRef(position):
                    number = self._scalars.get(position)
                case _:
                    number = factor
            if not isinstance(number, int):
                return None
            result *= number
        return result

    def total(self, terms: tuple[Product, ...]) -> int | None:
        """What a sum of products is."""
        values = [self.value(one) for one in terms]
        return None if None in values else sum(one for one in values if one is not None)
