"""Small programs written by hand, and an evaluator for steps: one torch tensor per body value, no loops."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest
import torch

from longhand.lower.ir import (
    Axis,
    AxisSize,
    Buffer,
    BufferKind,
    Constant,
    Extern,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Step,
    Store,
    Value,
    View,
    compute_dtype,
)

Op = PointwiseOp

_TORCH = {
    Op.ADD: torch.add,
    Op.SUB: torch.sub,
    Op.MUL: torch.mul,
    Op.DIV: torch.div,
    Op.EXP: torch.exp,
    Op.LOG: torch.log,
    Op.TANH: torch.tanh,
    Op.ERF: torch.erf,
    Op.RSQRT: torch.rsqrt,
    Op.SQRT: torch.sqrt,
    Op.NEG: torch.neg,
    Op.SIGMOID: torch.sigmoid,
    Op.MAXIMUM: torch.maximum,
    Op.GE: torch.ge,
    Op.GT: torch.gt,
    Op.LT: torch.lt,
    Op.LE: torch.le,
    Op.EQ: torch.eq,
    Op.LOGICAL_AND: torch.logical_and,
    Op.LOGICAL_NOT: torch.logical_not,
    Op.WHERE: torch.where,
}
_REDUCE: dict[ReduceOp, Callable[..., torch.Tensor]] = {
    ReduceOp.SUM: torch.sum,
    ReduceOp.MAX: torch.amax,
    ReduceOp.MIN: torch.amin,
}


def run_steps(
    steps: Iterable[Step], buffers: Mapping[str, Buffer], inputs: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The memory after the steps, flat by buffer; what nobody wrote holds NaN (or a wild number)."""
    memory = {name: tensor.clone().reshape(-1) for name, tensor in inputs.items()}
    for step in steps:
        if isinstance(step, Extern):
            _run_extern(step, buffers, memory)
        else:
            _run_nest(step, buffers, memory)
    return memory


def _run_extern(step: Extern, buffers: Mapping[str, Buffer], memory: dict[str, torch.Tensor]) -> None:
    def real(argument: object) -> object:
        if isinstance(argument, View):
            return memory[argument.buffer].as_strided(argument.shape, argument.stride, argument.offset)
        if isinstance(argument, tuple):
            return [real(part) for part in argument]
        return argument

    result = step.target(*[real(arg) for arg in step.args], **{k: real(v) for k, v in step.kwargs})
    for name, tensor in zip(step.outputs, [result] if torch.is_tensor(result) else result, strict=True):
        memory[name] = tensor.contiguous().clone().reshape(-1)


def _run_nest(nest: Nest, buffers: Mapping[str, Buffer], memory: dict[str, torch.Tensor]) -> None:
    names = [axis.name for axis in nest.axes]
    sizes = {axis.name: axis.size for axis in nest.axes}
    values: list[torch.Tensor] = []
    for value in nest.body:
        values.append(_evaluate(value, values, names, sizes, buffers, memory))


def _grid(
    index: Index, values: Sequence[torch.Tensor], names: list[str], sizes: dict[str, int]
) -> torch.Tensor:
    place = torch.full([1] * len(names), index.offset, dtype=torch.int64)
    for axis, coefficient in index.axes:
        shape = [sizes[axis] if name == axis else 1 for name in names]
        place = place + coefficient * torch.arange(sizes[axis]).reshape(shape)
    for position, coefficient in index.values:
        place = place + coefficient * values[position]
    return place


def _evaluate(
    value: Value,
    values: list[torch.Tensor],
    names: list[str],
    sizes: dict[str, int],
    buffers: Mapping[str, Buffer],
    memory: dict[str, torch.Tensor],
) -> torch.Tensor:
    ones = [1] * len(names)
    match value:
        case Load():
            place = _grid(value.index, values, names, sizes)
            if value.mask is not None:
                mask = values[value.mask]
                place, mask = torch.broadcast_tensors(place, mask)
                place = torch.where(mask, place, 0)
            assert int(place.min()) >= 0 and int(place.max()) < memory[value.buffer].numel(), value
            loaded = memory[value.buffer][place].to(value.dtype)
            return (
                loaded
                if value.mask is None
                else torch.where(mask, loaded, torch.tensor(value.other).to(value.dtype))
            )
        case Constant() | Scalar():
            return torch.full(ones, value.value, dtype=value.dtype)
        case IndexExpression():
            return _grid(value.index, values, names, sizes).to(value.dtype)
        case AxisSize():
            return torch.full(ones, math.prod(sizes[axis] for axis in value.axes), dtype=value.dtype)
        case Pointwise():
            args = [values[arg] for arg in value.args]
            if value.op is Op.CAST:
                narrowed = args[0] if value.narrow is None else args[0].to(value.narrow)
                return narrowed.to(value.dtype)
            return _TORCH[value.op](*args)
        case Reduce():
            dims = [names.index(axis) for axis in value.axes]
            full = list(values[value.arg].shape)
            for axis, dim in zip(value.axes, dims, strict=True):
                full[dim] = sizes[axis]
            return _REDUCE[value.op](values[value.arg].expand(full), dim=dims, keepdim=True)
        case Store():
            place = _grid(value.index, values, names, sizes)
            stored, place = torch.broadcast_tensors(values[value.value], place)
            if value.buffer not in memory:
                size = math.prod(buffers[value.buffer].shape)
                memory[value.buffer] = torch.full([size], 77, dtype=buffers[value.buffer].dtype)
            if value.mask is not None:
                mask, stored, place = torch.broadcast_tensors(values[value.mask], stored, place)
                stored, place = stored[mask], place[mask]
            memory[value.buffer][place] = stored.to(buffers[value.buffer].dtype)
            return stored
    raise AssertionError(value)


@dataclasses.dataclass
class Program:
    """A program under construction; tensors are seen through `Tensor`."""

    buffers: dict[str, Buffer] = dataclasses.field(default_factory=dict)
    steps: list[Step] = dataclasses.field(default_factory=list)
    inputs: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    def input(
        self, name: str, *shape: int, dtype: torch.dtype = torch.float32, value: torch.Tensor | None = None
    ) -> Tensor:
        """A tensor argument with random (or the given) content."""
        data = torch.randn(shape).to(dtype) if value is None else value
        self.inputs[name] = data
        self.buffers[name] = Buffer(
            name, BufferKind.INPUT, data.dtype, tuple(data.shape), tuple(data.stride())
        )
        return Tensor(self, name, tuple(data.shape), tuple(data.stride()), 0)

    def fresh(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A contiguous intermediate."""
        name = name if name not in self.buffers else f"{name}_{len(self.buffers)}"
        stride = torch.empty(tuple(shape), device="meta").stride()
        self.buffers[name] = Buffer(name, BufferKind.INTERMEDIATE, dtype, tuple(shape), tuple(stride))
        return Tensor(self, name, tuple(shape), tuple(stride), 0)

    def pointwise(
        self, name: str, function: Callable[..., int], *args: Tensor, dtype: torch.dtype | None = None
    ) -> Tensor:
        """A nest that applies `function(body, *positions) -> position` to broadcast arguments."""
        shape = torch.broadcast_shapes(*[arg.shape for arg in args])
        out = self.fresh(name, shape, dtype or args[0].dtype)
        self.steps.append(self._nest(shape, args, function, out, ()))
        return out

    def into(self, target: Tensor, function: Callable[..., int], *args: Tensor) -> None:
        """A nest that writes into an existing view."""
        self.steps.append(self._nest(target.shape, args, function, target, ()))

    def reduce(self, name: str, function: Callable[..., int], dims: Sequence[int], *args: Tensor) -> Tensor:
        """A nest whose function reduces over the axes of `dims` by itself (`body.reduce`); the dims stay, as 1."""
        shape = torch.broadcast_shapes(*[arg.shape for arg in args])
        out = self.fresh(name, [1 if d in dims else s for d, s in enumerate(shape)], torch.float32)
        self.steps.append(self._nest(shape, args, function, out, dims))
        return out

    def extern(self, name: str, target: torch._ops.OpOverload, shape: Sequence[int], *args: object) -> Tensor:
        """A library call with one result."""
        out = self.fresh(name, shape, torch.float32)
        real = tuple(a.view() if isinstance(a, Tensor) else a for a in args)
        self.steps.append(Extern(target, real, (), (out.buffer,), origin=out.buffer))
        return out

    def _nest(
        self,
        shape: Sequence[int],
        args: Sequence[Tensor],
        function: Callable[..., int],
        out: Tensor,
        dims: Sequence[int],
    ) -> Nest:
        axes = tuple(Axis(f"d{d}", size) for d, size in enumerate(shape) if size != 1)
        body = Body(out.buffer, [f"d{d}" for d in dims if shape[d] != 1])
        positions = [body.add(Load(a.buffer, a.index(len(shape)), compute_dtype(a.dtype))) for a in args]
        result = function(body, *positions)
        body.values.append(Store(out.buffer, out.index(len(shape)), result, origin=out.buffer))
        return Nest(axes, tuple(body.values))


class Body:
    """A body under construction."""

    def __init__(self, origin: str, reduced: list[str]) -> None:
        self.values: list[Value] = []
        self.origin = origin
        self.reduced = reduced

    def add(self, value: Value) -> int:
        self.values.append(dataclasses.replace(value, origin=self.origin))
        return len(self.values) - 1

    def op(self, op: PointwiseOp, *args: int | float) -> int:
        """A pointwise operation on positions; floats are constants."""
        dtype = next(self.values[a].dtype for a in reversed(args) if isinstance(a, int))
        places = tuple(a if isinstance(a, int) else self.add(Constant(a, dtype)) for a in args)
        boolean = op in (Op.GE, Op.GT, Op.LT, Op.LE, Op.EQ, Op.LOGICAL_AND, Op.LOGICAL_NOT)
        return self.add(Pointwise(op, places, torch.bool if boolean else dtype))

    def reduce(self, op: ReduceOp, arg: int) -> int:
        """A reduction over the axes that the nest reduces."""
        return self.add(Reduce(op, arg, tuple(self.reduced), self.values[arg].dtype)) if self.reduced else arg


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A strided view of a buffer of a program."""

    program: Program
    buffer: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def dtype(self) -> torch.dtype:
        return self.program.buffers[self.buffer].dtype

    def seen(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Tensor:
        """What a torch view function makes of it."""
        size = 1 + self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))
        storage = torch.empty(max(size, 1)).as_strided(self.shape, self.stride, self.offset)
        made = function(storage)
        assert (
            made.numel() == 0
            or made.data_ptr() - 4 * made.storage_offset()
            == storage.data_ptr() - 4 * storage.storage_offset()
        )
        return Tensor(
            self.program, self.buffer, tuple(made.shape), tuple(made.stride()), made.storage_offset()
        )

    def index(self, rank: int) -> Index:
        lead = rank - len(self.shape)
        terms = [
            (f"d{d + lead}", step)
            for d, (size, step) in enumerate(zip(self.shape, self.stride, strict=True))
            if size != 1 and step != 0
        ]
        return Index(self.offset, tuple(sorted(terms)))

    def view(self) -> View:
        return View(self.buffer, self.shape, self.stride, self.offset)


@pytest.fixture
def program() -> Program:
    """An empty program."""
    torch.manual_seed(0)
    return Program()


@pytest.fixture
def run() -> Callable[..., dict[str, torch.Tensor]]:
    """The evaluator."""
    return run_steps
