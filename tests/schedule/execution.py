"""Executes a kernel plan literally, and a nest directly, on flat tensors: the plan must mean what the nest means.

All rows (COLUMNS: all cols) go through each pass together; that is the same, since they are independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from longhand.lower.ir import (
    AxisSize,
    Buffer,
    Constant,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Size,
    Store,
    Value,
    arguments,
    domains,
)
from longhand.lower.ops import PRIMITIVES
from longhand.schedule.kernels.schedules.columns import COLUMNS
from longhand.schedule.kernels.schedules.few_rows import FEW_ROWS
from longhand.schedule.kernels.schedules.rows_and_columns import ROWS_AND_COLUMNS
from longhand.schedule.kernels.schedules.windows import WINDOWS
from longhand.schedule.plan import AxisRole, KernelPlan, Launch, OnlineSoftmax
from tests.schedule.products import evaluate

Memory = dict[str, torch.Tensor]


def fresh_memory(body: tuple[Value, ...], buffers: Mapping[str, Buffer], seed: int = 0) -> Memory:
    """A flat tensor for each buffer, random; index tensors stay below 7."""
    generator = torch.Generator().manual_seed(seed)
    indirect = [body[p] for v in body if isinstance(v, Load | Store) for p, _ in v.index.values]
    gathered = {value.buffer for value in indirect if isinstance(value, Load)}
    memory: Memory = {}
    for name, buffer in buffers.items():
        count = math.prod(int(size) for size in buffer.shape)
        if buffer.dtype.is_floating_point:
            memory[name] = torch.randn(count, generator=generator).to(buffer.dtype)
        else:
            high = 7 if name in gathered else 100
            memory[name] = torch.randint(0, high, (count,), generator=generator).to(buffer.dtype)
    return memory


class Lanes:
    """Evaluates single values of a body over the whole space; a value is a tensor with one dimension per axis."""

    def __init__(self, body: tuple[Value, ...], axes: list[tuple[str, int]], memory: Memory) -> None:
        self.body = body
        self.names = [name for name, _ in axes]
        self.sizes = dict(axes)
        self.memory = memory
        self.spans = domains(body)

    def coordinate(self, axis: str) -> torch.Tensor:
        shape = [self.sizes[axis] if name == axis else 1 for name in self.names]
        return torch.arange(self.sizes[axis]).view(shape)

    def place(self, position: int, values: Mapping[int, torch.Tensor]) -> torch.Tensor:
        index = self.body[position].index  # type: ignore[union-attr]
        where = torch.full([1] * len(self.names), int(index.offset))
        for axis, factor in index.axes:
            where = where + self.coordinate(axis) * int(factor)
        for value, factor in index.values:
            where = where + values[value] * int(factor)
        return where

    def compute(self, position: int, values: Mapping[int, torch.Tensor]) -> torch.Tensor:
        value = self.body[position]
        match value:
            case Load():
                where = self.place(position, values)
                if value.mask is None:
                    return self.memory[value.buffer][where].to(value.dtype)
                mask, where = torch.broadcast_tensors(values[value.mask], where)
                got = self.memory[value.buffer][torch.where(mask, where, 0)].to(value.dtype)
                return torch.where(mask, got, torch.tensor(value.other, dtype=value.dtype))
            case Constant() | Scalar():
                return torch.full([1] * len(self.names), value.value, dtype=value.dtype)
            case AxisSize():
                count = math.prod(self.sizes[axis] for axis in value.axes)
                return torch.full([1] * len(self.names), count, dtype=value.dtype)
            case IndexExpression():
                return self.place(position, values).to(value.dtype)
            case Pointwise():
                return pointwise(value, [values[argument] for argument in value.args])
        raise AssertionError(value)

    def reduce(self, value: Reduce, argument: torch.Tensor) -> torch.Tensor:
        over = [self.names.index(axis) for axis in value.axes]
        shape = [
            self.sizes[name] if place in over else argument.shape[place]
            for place, name in enumerate(self.names)
        ]
        full = argument.expand(shape)
        kept = [1 if place in over else size for place, size in enumerate(shape)]
        rest = [place for place in range(len(shape)) if place not in over]
        flat = full.permute(*rest, *over).reshape(*[shape[place] for place in rest], -1)
        return reduce_last(value, flat).to(value.dtype).reshape(kept)

    def store(
        self, position: int, values: Mapping[int, torch.Tensor], into: torch.Tensor | None = None
    ) -> None:
        value = self.body[position]
        assert isinstance(value, Store)
        where, what = torch.broadcast_tensors(self.place(position, values), values[value.value])
        target = self.memory[value.buffer] if into is None else into
        what = what.to(target.dtype)
        if value.mask is not None:
            mask = values[value.mask].expand(where.shape)
            where, what = where[mask], what[mask]
        if value.adds:
            target.index_put_((where,), what, accumulate=True)
        else:
            target[where] = what


class PlannedLanes(Lanes):
    """The same, with the plan's addresses and a launch's numbers in place of the nest's indices."""

    def __init__(self, plan: KernelPlan, launch: Launch, memory: Memory) -> None:
        axes = [(axis.name, int(size)) for axis, size in zip(plan.axes, launch.sizes, strict=True)]
        super().__init__(plan.body, axes, memory)
        self.plan = plan
        self.ints: Mapping[str, Size] = {
            parameter.name: value for parameter, value in zip(plan.ints, launch.ints, strict=True)
        }
        self.scalars = {p.position: v for p, v in zip(plan.scalars, launch.scalars, strict=True)}

    def place(self, position: int, values: Mapping[int, torch.Tensor]) -> torch.Tensor:
        address = self.plan.addresses[position]
        offset = sum(
            int(evaluate(product, self.sizes, self.ints, self.scalars)) for product in address.offset
        )
        where = torch.full([1] * len(self.names), offset)
        for axis, product in address.axes:
            where = where + self.coordinate(axis) * int(
                evaluate(product, self.sizes, self.ints, self.scalars)
            )
        for value, product in address.values:
            where = where + values[value] * int(evaluate(product, self.sizes, self.ints, self.scalars))
        return where

    def compute(self, position: int, values: Mapping[int, torch.Tensor]) -> torch.Tensor:
        if position in self.scalars:
            value = self.body[position]
            assert isinstance(value, Scalar)
            return torch.full([1] * len(self.names), self.scalars[position], dtype=value.dtype)
        return super().compute(position, values)


def run_nest(nest: Nest, memory: Memory) -> Memory:
    """What the nest means, value by value."""
    result = {name: tensor.clone() for name, tensor in memory.items()}
    lanes = Lanes(nest.body, [(axis.name, int(axis.size)) for axis in nest.axes], result)
    _straight(lanes)
    return result


def run_plan(plan: KernelPlan, launch: Launch, memory: Memory, copy: bool = True) -> Memory:
    """What the plan says, pass by pass, using in each place only what the plan puts there."""
    result = {name: tensor.clone() for name, tensor in memory.items()} if copy else memory
    lanes = PlannedLanes(plan, launch, result)
    if not plan.passes:
        _straight(lanes)
    else:
        _by_passes(plan, lanes)
    return result


def _straight(lanes: Lanes) -> None:
    values: dict[int, torch.Tensor] = {}
    for position, value in enumerate(lanes.body):
        if isinstance(value, Store):
            lanes.store(position, values)
        elif isinstance(value, Reduce):
            values[position] = lanes.reduce(value, values[value.arg])
        else:
            values[position] = lanes.compute(position, values)


def _by_passes(plan: KernelPlan, lanes: PlannedLanes) -> None:
    total = {position for one in plan.passes for position in one.sums}  # across the loops over the cols
    walks_rows = plan.schedule in (COLUMNS, WINDOWS, FEW_ROWS) or (
        plan.schedule is ROWS_AND_COLUMNS and not total
    )
    loop_role = AxisRole.ROW if walks_rows else AxisRole.COL
    loop = {axis.name for axis in plan.axes if axis.role is loop_role}
    leaves = {
        position: lanes.compute(position, {})
        for position, value in enumerate(plan.body)
        if isinstance(value, Constant | Scalar | AxisSize)
    }
    outer = dict(leaves)
    for position in plan.before:
        assert not lanes.spans[position] & loop and not isinstance(plan.body[position], Store)
        outer[position] = lanes.compute(position, outer)
    scratch: dict[int, torch.Tensor] = {}
    staged_in: dict[int, int | None] = {}
    added: dict[int, torch.Tensor] = {}
    for one in plan.passes:
        values = dict(outer)
        for position in sorted({*one.compute, *one.from_stage}):
            if position in one.from_stage:
                store = staged_in[position]
                if store is None:
                    values[position] = scratch[position]
                else:
                    target = plan.body[store]
                    assert isinstance(target, Store)
                    values[position] = lanes.memory[target.buffer][lanes.place(store, values)]
            else:
                value = plan.body[position]
                assert lanes.spans[position] & loop
                assert not isinstance(value, Reduce) or plan.schedule is ROWS_AND_COLUMNS
                if isinstance(value, Reduce):
                    values[position] = lanes.reduce(value, values[value.arg])
                else:
                    values[position] = lanes.compute(position, values)
        finished = _reductions(plan, lanes, one.reductions, values)
        for stage in one.stages:
            staged_in[stage.position] = stage.store
            if stage.store is None:
                scratch[stage.position] = values[stage.position]
            else:
                target = plan.body[stage.store]
                assert isinstance(target, Store)
                assert lanes.memory[target.buffer].dtype == values[stage.position].dtype
                where, what = torch.broadcast_tensors(
                    lanes.place(stage.store, values), values[stage.position]
                )
                lanes.memory[target.buffer][where] = what
        for position in one.stores:
            lanes.store(position, values)
        for position in one.sums:
            reduce = plan.body[position]
            assert isinstance(reduce, Reduce)
            added[position] = lanes.reduce(reduce, values[reduce.arg])
        outer.update(finished)
        for position in one.then:
            assert not lanes.spans[position] & loop
            if isinstance(plan.body[position], Store):
                lanes.store(position, outer)
            else:
                outer[position] = lanes.compute(position, outer)
    assert set(added) == total
    after = [p for p, value in enumerate(plan.body) if isinstance(value, Store) and value.value in total]
    for position in after:
        lanes.store(position, added)
    done = {*after, *(position for one in plan.passes for position in (*one.stores, *one.then))}
    assert all(position in done for position, value in enumerate(plan.body) if isinstance(value, Store))


def _reductions(
    plan: KernelPlan,
    lanes: PlannedLanes,
    reductions: tuple[int | OnlineSoftmax, ...],
    values: Mapping[int, torch.Tensor],
) -> dict[int, torch.Tensor]:
    found: dict[int, torch.Tensor] = {}
    for entry in reductions:
        position = entry.max if isinstance(entry, OnlineSoftmax) else entry
        reduce = plan.body[position]
        assert isinstance(reduce, Reduce)
        found[position] = lanes.reduce(reduce, values[reduce.arg])
        if isinstance(entry, OnlineSoftmax):
            total = plan.body[entry.sum]
            assert isinstance(total, Reduce)
            found[entry.sum] = lanes.reduce(total, torch.exp(values[reduce.arg] - found[position]))
    return found


def run_padded(plan: KernelPlan, launch: Launch, memory: Memory, lanes_past: int = 3) -> Memory:
    """The body in order over blocks that reach past the end of the reduced side (one axis): what loads yield there is
    `padding` (NaN or garbage where there is none), and only guarded reductions look away."""
    result = {name: tensor.clone() for name, tensor in memory.items()}
    side = plan.rows if plan.schedule is COLUMNS else plan.cols
    (axis,) = side
    lanes = PlannedLanes(plan, launch, result)
    size = lanes.sizes[axis.name]
    true_sizes = dict(lanes.sizes)
    values: dict[int, torch.Tensor] = {}
    valid = (torch.arange(size + lanes_past) < size).view(
        [size + lanes_past if name == axis.name else 1 for name in lanes.names]
    )

    def widened(position: int) -> torch.Tensor:
        value = plan.body[position]
        lanes.sizes = {**true_sizes, axis.name: size}
        if axis.name not in lanes.spans[position]:
            return lanes.compute(position, values)
        inner = {
            p: v.narrow(lanes.names.index(axis.name), 0, size) if _is_wide(v) else v
            for p, v in values.items()
        }
        real = lanes.compute(position, inner)
        extra_shape = list(real.shape)
        extra_shape[lanes.names.index(axis.name)] = lanes_past
        if isinstance(value, Load):
            fill = plan.padding.get(position, math.nan if value.dtype.is_floating_point else 77)
            extra = torch.full(extra_shape, fill, dtype=value.dtype)
        elif isinstance(value, IndexExpression):
            extra = torch.full(extra_shape, size, dtype=value.dtype)
        else:
            outer = {
                p: v.narrow(lanes.names.index(axis.name), size, lanes_past) if _is_wide(v) else v
                for p, v in values.items()
            }
            extra = lanes.compute(position, outer).expand(extra_shape)
        return torch.cat((real, extra), lanes.names.index(axis.name))

    def _is_wide(tensor: torch.Tensor) -> bool:
        return tensor.shape[lanes.names.index(axis.name)] == size + lanes_past

    for position, value in enumerate(plan.body):
        lanes.sizes = true_sizes
        if isinstance(value, Reduce):
            argument = values[value.arg]
            if position in plan.guards:
                neutral = torch.tensor(identity(value, argument.dtype), dtype=argument.dtype)
                argument = torch.where(valid, argument, neutral)
            lanes.sizes = {**true_sizes, axis.name: argument.shape[lanes.names.index(axis.name)]}
            values[position] = lanes.reduce(value, argument)
        elif isinstance(value, Store):
            inner = {
                p: v.narrow(lanes.names.index(axis.name), 0, size) if _is_wide(v) else v
                for p, v in values.items()
            }
            lanes.store(position, inner)
        else:
            values[position] = widened(position)
    return result


def identity(value: Reduce, dtype: torch.dtype) -> float | int | bool:
    match value.op:
        case ReduceOp.SUM:
            return 0
        case ReduceOp.PROD:
            return 1
        case ReduceOp.ANY:
            return False
        case ReduceOp.ALL:
            return True
    lowest = value.op in (ReduceOp.MAX, ReduceOp.ARGMAX)
    if dtype.is_floating_point:
        return -math.inf if lowest else math.inf
    info = torch.iinfo(dtype)
    return info.min if lowest else info.max


def reduce_last(value: Reduce, argument: torch.Tensor) -> torch.Tensor:
    match value.op:
        case ReduceOp.SUM:
            return argument.sum(-1, dtype=value.dtype)
        case ReduceOp.PROD:
            return argument.prod(-1, dtype=value.dtype)
        case ReduceOp.MAX:
            return argument.amax(-1)
        case ReduceOp.MIN:
            return argument.amin(-1)
        case ReduceOp.ARGMAX:
            return argument.argmax(-1)
        case ReduceOp.ARGMIN:
            return argument.argmin(-1)
        case ReduceOp.ANY:
            return argument.any(-1)
        case ReduceOp.ALL:
            return argument.all(-1)


def pointwise(value: Pointwise, args: list[torch.Tensor]) -> torch.Tensor:
    if value.op is PointwiseOp.CAST:
        return args[0].to(value.narrow or value.dtype).to(value.dtype)
    return PRIMITIVES[value.op].in_torch(*args)


def all_arguments_earlier(body: tuple[Value, ...]) -> bool:
    return all(argument < position for position, value in enumerate(body) for argument in arguments(value))
