"""May these loops be one kernel? Pure functions that name what stands in the way, or None."""

from __future__ import annotations

from collections.abc import Mapping

from longhand.lower.ir import (
    Axis,
    Buffer,
    Load,
    Nest,
    Reduce,
    ReduceOp,
    Size,
    Store,
    Value,
    arguments,
)
from longhand.lower.rules.adding import adding_problem
from longhand.schedule.bodies import domains_of, loads, reduced_axes, stores
from longhand.schedule.dependencies import indices_are_disjoint
from longhand.schedule.sizes import rank

MAX_POINTERS = 16
MAX_VALUES = 120


def fused_nest_problem(nest: Nest) -> str | None:
    """Why a nest that fusion made is not rows x cols work for one kernel, or None.

    A kernel has one set of reduced axes (the cols of a row kernel); every reduction leaves one number per row; a store
    covers all axes or one element per row; memory that is read and written is read at the place that is written.
    """
    return size_problem(nest) or _reduction_problem(nest) or _store_problem(nest) or memory_problem(nest)


def memory_problem(nest: Nest) -> str | None:
    """Whether some iteration could read or overwrite what another has written, or add it twice."""
    if (problem := adding_problem(nest)) is not None:
        return problem
    sizes = {axis.name: axis.size for axis in nest.axes}
    written: dict[str, list[tuple[int, Store]]] = {}
    for position, store in stores(nest):
        for _, other in written.setdefault(store.buffer, []):
            if not indices_are_disjoint(store.index, sizes, other.index, sizes):
                return f"{store.buffer} is written twice"
        written[store.buffer].append((position, store))
    for position, load in loads(nest):
        for place, store in written.get(load.buffer, ()):
            if load.index != store.index or position > place:
                return f"{load.buffer} is read and written at different places"
    return None


def depends_on_reduction(body: tuple[Value, ...]) -> list[bool]:
    """For each value whether some reduction must be complete before it is known."""
    late: list[bool] = []
    for value in body:
        late.append(isinstance(value, Reduce) or any(late[position] for position in arguments(value)))
    return late


def reduces_columns(nest: Nest, buffers: Mapping[str, Buffer]) -> bool:
    """Whether the reduction runs against the grain of memory: neighbours in memory belong to different results."""
    reduced = reduced_axes(nest)
    if not reduced:
        return False
    votes = {True: 0, False: 0}
    axes = {axis.name: axis for axis in nest.axes}
    for _, load in loads(nest):
        steps = [(abs(rank(coefficient)), axis) for axis, coefficient in load.index.axes]
        if not steps or not any(axis in reduced for _, axis in steps):
            continue
        votes[min(steps)[1] not in reduced] += (
            _weight(load.index.axes, axes) * buffers[load.buffer].dtype.itemsize
        )
    return votes[True] > votes[False]


def _weight(terms: tuple[tuple[str, Size], ...], axes: Mapping[str, Axis]) -> int:
    weight = 1
    for axis, _ in terms:
        weight *= rank(axes[axis].size)
    return weight


def size_problem(nest: Nest) -> str | None:
    """Whether one kernel would be too much to read."""
    pointers = {value.buffer for value in nest.body if isinstance(value, Load | Store)}
    if len(pointers) > MAX_POINTERS:
        return f"together they touch {len(pointers)} tensors, more than {MAX_POINTERS}"
    if len(nest.body) > MAX_VALUES:
        return f"together they compute {len(nest.body)} values, more than {MAX_VALUES}"
    return None


def _reduction_problem(nest: Nest) -> str | None:
    reductions = [value for value in nest.body if isinstance(value, Reduce)]
    if not reductions:
        return None
    cols = set(reductions[0].axes)
    if any(set(reduction.axes) != cols for reduction in reductions):
        return "their reductions run over different axes"
    rows = {axis.name for axis in nest.axes} - cols
    axes = domains_of(nest)
    inner = tuple(axis.name for axis in nest.axes if axis.name in cols)
    waits = depends_on_reduction(nest.body)
    for position, value in enumerate(nest.body):
        if isinstance(value, Load) and waits[position] and axes[position] & cols:
            return "which row is read depends on a reduction, and a kernel's rows begin before it"
        if not isinstance(value, Reduce):
            continue
        if axes[position] != rows:
            return "a reduction would be repeated for every row"
        if value.op in (ReduceOp.ARGMAX, ReduceOp.ARGMIN) and value.axes != inner:
            return "the order of the reduced axes matters to an argmax"
    return None


def _store_problem(nest: Nest) -> str | None:
    everything = {axis.name for axis in nest.axes}
    rows = everything - reduced_axes(nest)
    axes = domains_of(nest)
    for position, store in stores(nest):
        if axes[position] != everything and axes[position] != rows:
            return f"{store.buffer} would be written more than once"
    return None
