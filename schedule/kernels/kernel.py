"""One fused nest becomes one kernel's complete plan, and the launch that it was planned for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

import sympy
import torch

from longhand.lower.ir import (
    PRIMITIVES,
    Buffer,
    Cost,
    Load,
    Nest,
    Pointwise,
    Reduce,
    Scalar,
    Size,
    Store,
    Value,
    arguments,
    domains,
)
from longhand.options import Options
from longhand.schedule.fusion.traffic import accesses, bytes_moved
from longhand.schedule.kernels.address import Addresses, find_addresses
from longhand.schedule.kernels.axis_collapsing import POSITIONAL
from longhand.schedule.kernels.halves import Halves, find_halves
from longhand.schedule.kernels.index_width import Bounds, find_index_widths, largest, most_elements
from longhand.schedule.kernels.kernel_plan import (
    Access,
    KernelPlan,
    OnlineSoftmax,
    Partial,
    PlanAxis,
    Pointer,
    ScalarParameter,
)
from longhand.schedule.kernels.kernel_schedule import AxisRole, KernelSchedule
from longhand.schedule.kernels.key import kernel_key
from longhand.schedule.kernels.schedules.columns import column_shape
from longhand.schedule.kernels.schedules.elementwise import is_small
from longhand.schedule.kernels.schedules.entry import Candidate, KernelWork, Loops, ScheduleEntry, count
from longhand.schedule.kernels.schedules.registry import SCHEDULES, choose_schedule, choose_tunables
from longhand.schedule.kernels.schedules.rows_persistent import is_long_row
from longhand.schedule.kernels.space import Family, NestSpace, find_space
from longhand.schedule.kernels.tensor_shapes import find_regions
from longhand.schedule.kernels.transposed_staging import is_transposed, transposed_loads
from longhand.schedule.kernels.twins import NOTHING_GIVEN, Given
from longhand.schedule.numerics.numerics import Numerics, find_numerics
from longhand.schedule.plan import Launch
from longhand.schedule.sizes import Hints, Limits
from longhand.schedule.targets import facts_of


def plan_kernel(
    nest: Nest,
    buffers: Mapping[str, Buffer],
    options: Options,
    hints: Hints | None = None,
    limits: Limits | None = None,
    products: ScheduleEntry | None = None,
    given: Given = NOTHING_GIVEN,
) -> tuple[KernelPlan, Launch]:
    """Plan a nest.

    Args:
        nest: Fused; `schedule.kernels.space.refusal` says nothing against it.
        buffers: Every buffer that it names.
        options: The target decides.
        hints: Values of symbolic sizes, as at capture. They choose between schedules only.
        products: Of a contraction: the schedule that computes it. None: whichever applies first.
        limits: Their largest values, which decide what is counted in 64 bits.
        given: What else the kernel takes as arguments, so that it is one with another.

    Returns:
        The kernel, and the call of it that the nest is.
    """
    hints = hints or {}
    target = facts_of(options.target)
    space = find_space(
        nest,
        buffers,
        hints,
        are_products=products is not None,
        unrolls_rows=products is None and target.unrolls_windows,
        walk=given.walk,
    )
    space = dataclasses.replace(space, body=given.with_factors(space.body))
    pointers, axes = list(accesses(space.body)), space.axes
    strided = {(pointers[pointer], axes[axis].name) for pointer, axis in given.strides}
    begun = {pointers[place] for place in given.offsets}
    addresses = find_addresses(space.body, axes, hints, strided, begun)
    candidate = Candidate(space, buffers, target, hints)
    entry, loops = choose_schedule(candidate, (products,) if products is not None else SCHEDULES)
    schedule = entry.schedule
    used = accesses(space.body)
    chunked = space.column_reductions or loops.passes.passes[0].reductions if loops.is_split else ()
    partials, scratch = _partials(space.body, chunked)
    scalars = _scalars(space.body)
    transposed = transposed_loads(space, schedule, addresses.by_position, target)
    work = dataclasses.replace(
        _work(space, buffers, schedule, loops, hints),
        is_transposed=bool(transposed),
        is_across=_is_across(space, addresses),
    )
    numerics_of = functools.partial(
        find_numerics,
        memory={name: buffers[name].dtype for name in used},
        has_free_doubles=target.has_free_doubles,
        looped_cols=frozenset(axis.name for axis in space.cols if schedule.is_row_by_row),
    )
    plan = KernelPlan(
        key="",
        schedule=schedule,
        axes=tuple(PlanAxis(axis.name, AxisRole.ROW) for axis in space.rows)
        + tuple(PlanAxis(axis.name, AxisRole.COL) for axis in space.cols),
        body=space.body,
        addresses=addresses.by_position,
        pointers=_pointers(used, addresses, buffers) + scratch,
        ints=addresses.ints,
        scalars=tuple(scalars),
        tunables=given.with_height(choose_tunables(entry, target, work)),
        transposed=transposed,
        passes=loops.passes.passes if schedule.has_passes else (),
        before=loops.passes.before if schedule.has_passes else (),
        partials=partials,
        guards=loops.masking.guards,
        padding=loops.masking.padding,
        spared=loops.masking.spared,
        numerics=numerics_of(space.body),
        origins=tuple(dict.fromkeys(value.origin for value in space.body if value.origin)),
        bytes_moved=bytes_moved(space.body, space.axes, buffers),
        halves=_halves(candidate, addresses, schedule, numerics_of),
    )
    launch = _launch(plan, tuple(axis.size for axis in space.axes), addresses.values, scalars)
    if target.has_narrow_indices:
        plan = dataclasses.replace(
            plan, widths=find_index_widths(plan, _bounds(plan, launch, buffers, limits or {}))
        )
    key = kernel_key(plan)
    plan = find_regions(dataclasses.replace(plan, key=key), launch.sizes, launch.scalars, buffers)
    return plan, dataclasses.replace(launch, kernel=key)


def _halves(
    candidate: Candidate,
    addresses: Addresses,
    schedule: KernelSchedule,
    numerics_of: Callable[[tuple[Value, ...]], Numerics],
) -> Halves | None:
    """The body by halves, of elements that are computed each for itself along one column axis."""
    space, smallest = candidate.space, candidate.target.smallest_half
    if not schedule.has_independent_elements or len(space.cols) != 1:
        return None
    halves = find_halves(space.body, addresses.by_position, space.cols[0], candidate.hints, smallest)
    return None if halves is None else dataclasses.replace(halves, numerics=numerics_of(halves.body))


def _bounds(plan: KernelPlan, launch: Launch, buffers: Mapping[str, Buffer], limits: Limits) -> Bounds:
    """The upper ends of a launch's numbers."""
    whole = {
        scalar.position: largest(value, limits)
        for scalar, value in zip(plan.scalars, launch.scalars, strict=True)
        if not isinstance(value, float)
    }
    return Bounds(
        {axis.name: largest(size, limits) for axis, size in zip(plan.axes, launch.sizes, strict=True)},
        {entry.name: largest(value, limits) for entry, value in zip(plan.ints, launch.ints, strict=True)},
        whole,
        most_elements((buffers[name] for name in launch.buffers), limits),
    )


def _launch(
    plan: KernelPlan,
    sizes: tuple[Size, ...],
    ints: tuple[Size, ...],
    scalars: Mapping[ScalarParameter, float | Size],
) -> Launch:
    return Launch(
        kernel=plan.key,
        buffers=tuple(pointer.name for pointer in plan.pointers if not pointer.scratch),
        sizes=sizes,
        ints=ints,
        scalars=tuple(scalars.values()),
        origins=plan.origins,
        bytes_moved=plan.bytes_moved,
    )


def _live_words(space: NestSpace, schedule: KernelSchedule) -> int:
    """How many 32-bit registers the values of one element take at most; plain loads come first, all of them.

    Of a block of rows and columns only what varies along both has a value for each element.
    """
    body, varying = space.body, domains(space.body)
    rows = space.rows[-1:] if schedule.is_tiled else space.rows
    sides = [{axis.name for axis in side} for side in (rows, space.cols) if side]
    last = {argument: position for position, value in enumerate(body) for argument in arguments(value)}
    is_whole = [all(varying[position] & side for side in sides) for position in range(len(body))]
    alive = {p for p, v in enumerate(body) if isinstance(v, Load) and v.mask is None and not v.index.values}
    most = 1
    for position, value in enumerate(body):
        if isinstance(value, Load | Pointwise | Reduce):
            alive.add(position)
        most = max(most, sum(_words(body[other]) for other in alive if is_whole[other]))
        alive = {other for other in alive if last.get(other, -1) > position}
    return most


def _words(value: Value) -> int:
    return 2 if not isinstance(value, Store) and value.dtype.itemsize > 4 else 1


def _pointers(
    used: Mapping[str, Access], addresses: Addresses, buffers: Mapping[str, Buffer]
) -> tuple[Pointer, ...]:
    return tuple(
        Pointer(name, buffers[name].dtype, access, addresses.dims[name]) for name, access in used.items()
    )


def _scalars(body: tuple[Value, ...]) -> dict[ScalarParameter, float | Size]:
    return {
        ScalarParameter(position, value.dtype, value.name, _varies(value)): value.value
        for position, value in enumerate(body)
        if isinstance(value, Scalar)
    }


def _varies(scalar: Scalar) -> bool:
    is_float = scalar.dtype.is_floating_point and scalar.dtype is not torch.float64
    return is_float and isinstance(scalar.value, sympy.Expr) and bool(scalar.value.free_symbols)


def _partials(
    body: tuple[Value, ...], reductions: tuple[int | OnlineSoftmax, ...]
) -> tuple[tuple[Partial, ...], tuple[Pointer, ...]]:
    """A scratch tensor for each result of each chunk."""
    partials: list[Partial] = []
    positions: list[int] = []
    for entry in reductions:
        positions += [entry.max, entry.sum] if isinstance(entry, OnlineSoftmax) else [entry]
    for position in positions:
        value = body[position]
        assert isinstance(value, Reduce)
        partials.append(Partial(position, f"partial_{position}"))
        if value.op in POSITIONAL:
            partials.append(Partial(position, f"partial_{position}_index", is_index=True))
    return tuple(partials), tuple(_scratch(body, partial) for partial in partials)


def _scratch(body: tuple[Value, ...], partial: Partial) -> Pointer:
    value = body[partial.position]
    assert isinstance(value, Reduce)
    dtype = value.dtype
    if value.op in POSITIONAL and not partial.is_index:
        argument = body[value.arg]
        assert not isinstance(argument, Store)
        dtype = argument.dtype
    return Pointer(partial.pointer, dtype, Access.READ_WRITE, None, scratch=True)


def _work(
    space: NestSpace,
    buffers: Mapping[str, Buffer],
    schedule: KernelSchedule,
    loops: Loops,
    hints: Hints,
) -> KernelWork:
    n_rows, n_cols = count(space.rows, hints), count(space.cols, hints)
    widest = max(
        buffers[value.buffer].dtype.itemsize for value in space.body if isinstance(value, Load | Store)
    )
    return KernelWork(
        has_rows=bool(space.rows),
        has_cols=bool(space.cols),
        has_several_cols=len(space.cols) > 1,
        is_split=loops.is_split,
        is_heavy=any(
            isinstance(value, Pointwise) and PRIMITIVES[value.op].cost is Cost.HEAVY for value in space.body
        ),
        columns=column_shape(n_rows, n_cols),
        is_small=is_small(n_rows * n_cols),
        is_long=is_long_row(n_cols),
        has_varied_cols=any(not isinstance(axis.size, int) for axis in space.cols),
        writes_rows=loops.passes.writes_elements,
        element_bytes=widest,
        live_words=_live_words(space, schedule),
    )


def _is_across(space: NestSpace, addresses: Addresses) -> bool:
    """Whether something lies in memory with one col after the other's rows, where rows are reduced."""
    if space.family is not Family.ROWS or not (space.rows and space.cols):
        return False
    row, col = space.rows[-1].name, space.cols[-1].name
    return any(
        isinstance(value, Load | Store) and is_transposed(addresses.by_position[position], row, col)
        for position, value in enumerate(space.body)
    )
