"""Sums down the columns of what a row kernel holds: the gradients of a norm's weight and bias, beside its input's.

Such a nest has reductions over two sets of axes. Those over the cols make the rows' values; those over the rows are
sums that are only stored. A program of the kernel takes a chunk of the rows and leaves its part of every sum; the
parts are added up afterwards, in order.
"""

from __future__ import annotations

from longhand.lower.ir import (
    AxisSize,
    Constant,
    Nest,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
    Value,
    arguments,
    domains,
)
from longhand.schedule.bodies import rewrite
from longhand.schedule.kernels.kernel_plan import Pass
from longhand.schedule.kernels.pass_levels import Passes


def find_column_reductions(nest: Nest) -> tuple[int, ...]:
    """The positions of the sums down columns, in a nest that reduces its rows as well; else nothing."""
    by_axes: dict[frozenset[str], list[int]] = {}
    for position, value in enumerate(nest.body):
        if isinstance(value, Reduce):
            by_axes.setdefault(frozenset(value.axes), []).append(position)
    everything = {axis.name for axis in nest.axes}
    if len(by_axes) != 2 or set().union(*by_axes) != everything or frozenset.intersection(*by_axes):
        return ()
    final_sums = [group for group in by_axes.values() if all(_is_final_sum(nest.body, at) for at in group)]
    return tuple(final_sums[0]) if len(final_sums) == 1 else ()


def without_column_reductions(nest: Nest) -> Nest:
    """The nest whose column sums are there no more, nor what stores them; nothing else uses them."""
    sums = find_column_reductions(nest)
    if not sums:
        return nest
    kept = [
        position
        for position, value in enumerate(nest.body)
        if position not in sums and not (isinstance(value, Store) and value.value in sums)
    ]
    place = {position: number for number, position in enumerate(kept)}
    return Nest(nest.axes, tuple(rewrite(nest.body[position], place) for position in kept))


def pass_over_rows(body: tuple[Value, ...], rows: frozenset[str], sums: tuple[int, ...]) -> Passes:
    """The one loop over the rows of a chunk: whole rows, their reductions included, then the sums."""
    spans = domains(body)
    before: list[int] = []
    inside: list[int] = []
    stores: list[int] = []
    then: list[int] = []
    for position, value in enumerate(body):
        if position in sums or isinstance(value, Constant | Scalar | AxisSize):
            continue
        if isinstance(value, Store):
            (then if value.value in sums else stores).append(position)
        else:
            (inside if spans[position] & rows else before).append(position)
    one = Pass(compute=tuple(inside), reductions=sums, stores=tuple(stores), then=tuple(then))
    return Passes(tuple(before), (one,))


def _is_final_sum(body: tuple[Value, ...], position: int) -> bool:
    value = body[position]
    assert isinstance(value, Reduce)
    users = [other for other in body if position in arguments(other)]
    is_stored = all(
        isinstance(user, Store) and user.mask is None and user.value == position for user in users
    )
    return value.op is ReduceOp.SUM and value.dtype.is_floating_point and bool(users) and is_stored
