"""Kernels of the same math, of which one walks along axes that another one takes as one: heads and tokens, and rows.

Contiguous tensors are walked along as few axes as possible. Where another call of the same math reads a tensor whose
axes lie in another order, both are walked along the axes of that one, and differ in strides alone: see `twins`. What
lies side by side stays so: more axes of rows cost a division for each row, and nothing for each element.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longhand.lower.ir import AxisSize, Load, Reduce, Size, Store, Value
from longhand.schedule.kernels.address_terms import ParameterRef, value_of
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.kernels.key import CanonicalPlan, kind_of_number
from longhand.schedule.kernels.twins import may_begin_anywhere
from longhand.schedule.plan import Launch
from longhand.schedule.sizes import same

_MOST_ORDERED = 4  # axes in all of their orders
_VECTOR = 16  # elements: what a flat tensor's rows must be a multiple of to be read as fast row by row


def walked_otherwise(kernels: Mapping[str, KernelPlan]) -> Iterator[tuple[str, ...]]:
    """Groups of kernels by key that compute the same."""
    alike: dict[object, list[str]] = {}
    for key, plan in kernels.items():
        alike.setdefault(_Math(plan).everything(), []).append(key)
    yield from (tuple(keys) for keys in alike.values() if len(keys) > 1)


def walks_as_fast(before: KernelPlan, after: KernelPlan, sizes: tuple[Size, ...]) -> bool:
    """Whether a kernel that walks along more axes reads and writes as before: the same lanes, or whole vectors.

    Args:
        before: Along fewer axes.
        after: Along more.
        sizes: Of the axes that it is along then, in a call.
    """
    if before.schedule != after.schedule or not after.cols:
        return False
    lane = sizes[-1]
    is_flat = not before.rows or len(after.cols) > len(before.cols)
    return not is_flat or (isinstance(lane, int) and lane % _VECTOR == 0)


def best_order(first: KernelPlan, first_call: Launch, plan: KernelPlan, call: Launch) -> tuple[int, ...]:
    """The order of a kernel's outer axes in which it is most like another one: of the same sizes, if these tell.

    Args:
        first: The other one.
        first_call: A call of it.
        plan: Walks along as many axes.
        call: A call of that.
    """
    outer = _outer_places(plan)
    if len(outer) > _MOST_ORDERED or len(plan.axes) != len(first.axes):
        return tuple(range(len(outer)))

    def unlikeness(order: tuple[int, ...]) -> tuple[int, int, int]:
        places = list(range(len(plan.axes)))
        for place, other in zip(outer, order, strict=True):
            places[place] = outer[other]
        sizes = [call.sizes[place] for place in places]
        n_other = sum(not same(one, two) for one, two in zip(sizes, first_call.sizes, strict=True))
        moved = list(_accesses_apart(first, plan, call, places))
        return n_other, len(set(moved)), sum(isinstance(value, Load) for value in moved)

    return min(itertools.permutations(range(len(outer))), key=lambda order: (unlikeness(order), order))


def _outer_places(plan: KernelPlan) -> range:
    """Of the axes whose order nothing depends on: `NestSpace.outer`, of a plan."""
    n_rows = len(plan.rows)
    if plan.schedule.is_down_columns:
        return range(n_rows, len(plan.axes) - 1)
    return range(n_rows - plan.schedule.is_tiled)


def _accesses_apart(
    first: KernelPlan, plan: KernelPlan, call: Launch, places: Sequence[int]
) -> Iterator[Load | Store]:
    """The accesses that step otherwise than the other kernel's do, if its axes stand at these places."""
    sizes = {axis.name: call.sizes[place] for axis, place in zip(first.axes, places, strict=True)}
    own_sizes = dict(zip((axis.name for axis in plan.axes), call.sizes, strict=True))
    ints = dict(zip((parameter.name for parameter in plan.ints), call.ints, strict=True))
    for position, value in enumerate(plan.body):
        if not isinstance(value, Load | Store):
            continue
        theirs = dict(first.addresses[position].axes)
        own = dict(plan.addresses[position].axes)
        for axis, place in zip(first.axes, places, strict=True):
            wanted, product = theirs.get(axis.name), own.get(plan.axes[place].name)
            if (wanted is None) != (product is None):
                yield value
            elif wanted is not None and product is not None:
                is_given = any(isinstance(factor, ParameterRef) for factor in wanted)
                step = None if is_given else value_of(wanted, sizes, {})
                here = value_of(product, own_sizes, ints)
                if step is None or here is None or not same(step, here):
                    yield value


class _Math(CanonicalPlan):
    """What a kernel computes, wherever its tensors' elements lie, but for what lies side by side."""

    def everything(self) -> tuple[Any, ...]:
        plan = self.plan
        return (
            plan.schedule.name,
            tuple((str(pointer.dtype), pointer.access.value, pointer.scratch) for pointer in plan.pointers),
            tuple(map(kind_of_number, plan.scalars)),
            tuple(self.value(position, value) for position, value in enumerate(plan.body)),
        )

    def value(self, position: int, value: Value) -> tuple[Any, ...]:
        if isinstance(value, Reduce):
            return ("Reduce", str(value.dtype), value.op.value, value.arg)
        if isinstance(value, AxisSize):
            roles = {axis.role.value for axis in self.plan.axes if axis.name in value.axes}
            return ("AxisSize", str(value.dtype), tuple(sorted(roles)))
        return super().value(position, value)

    def address(self, position: int) -> tuple[Any, ...]:
        address = self.plan.addresses[position]
        side_by_side = {axis for axis, product in address.axes if product == ()}
        last = self.plan.axes[-1].name if self.plan.axes else ""
        is_along = [axis.role.value for axis in self.plan.axes if axis.name in side_by_side]
        begins = bool(address.offset) and not may_begin_anywhere(self.plan, position)
        return (last in side_by_side, tuple(is_along), len(address.values), begins)
