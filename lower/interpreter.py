"""What a program means: bodies evaluated with torch, whole iteration spaces at once. The oracle of the tests.

Slow and memory-hungry on purpose: every value of a body is a tensor over the nest's axes (size 1 where it does not
vary), every load is a gather from the flat buffer. `precision` replaces float32 in bodies (float64: the reference).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import sympy
import torch

from longhand.capture.graph import InputKind, Literal
from longhand.errors import LoweringError
from longhand.lower.body import (
    AxisSize,
    Constant,
    Index,
    IndexExpression,
    Load,
    Pointwise,
    Reduce,
    Scalar,
    Size,
    Store,
    Value,
)
from longhand.lower.ir import Buffer, BufferKind, Extern, Nest, Program, View, in_parts
from longhand.lower.ops import PRIMITIVES, REDUCTIONS, PointwiseOp

Sizes = Mapping[sympy.Symbol, int]


def run_program(
    program: Program,
    inputs: Mapping[str, torch.Tensor | int],
    *,
    precision: torch.dtype | None = None,
    own: Mapping[torch._ops.OpOverload, Callable[..., Any]] = MappingProxyType({}),
) -> dict[str, torch.Tensor]:
    """Runs every step of a program. Of a contraction its call runs: its loops would take a space of three dimensions.

    Args:
        program: Nests and library calls.
        inputs: By placeholder name; lifted constants may be left out. Mutated inputs are written in place.
        precision: What bodies compute in instead of float32; None: float32. Buffers keep their dtypes unless this is
            float64: then float32 and 16-bit intermediates are float64, too.
        own: What a unit calls in an operator's place: a function of its runtime.py.

    Returns:
        Every buffer by name, results included: see `results_of`.
    """
    buffers = _bind_inputs(program, inputs)
    sizes = bind_sizes(program, inputs)
    for step in in_parts(program.steps):
        if isinstance(step, Nest):
            for value in step.body:
                if isinstance(value, Store) and value.buffer not in buffers:
                    buffers[value.buffer] = _allocate(program.buffers[value.buffer], sizes, precision)
            run_nest(step, buffers, sizes=sizes, precision=precision)
        else:
            _run_extern(step, own.get(step.target, step.target), buffers, sizes)
            sizes |= _sizes_made(program, step.outputs, buffers)
    for name, buffer in program.buffers.items():
        if name not in buffers and buffer.kind is BufferKind.INTERMEDIATE:
            buffers[name] = _allocate(buffer, sizes, precision)
    return buffers


def results_of(
    program: Program, buffers: Mapping[str, torch.Tensor], inputs: Mapping[str, torch.Tensor | int]
) -> list[Any]:
    """What the call returns, leaf by leaf, from the buffers that `run_program` gave."""
    sizes = bind_sizes(program, inputs) | _sizes_made(program, tuple(buffers), buffers)
    return [
        result.value if isinstance(result, Literal) else take_view(result, buffers, sizes)
        for result in program.results
    ]


def run_nest(
    nest: Nest,
    buffers: Mapping[str, torch.Tensor],
    *,
    sizes: Sizes | None = None,
    precision: torch.dtype | None = None,
) -> None:
    """Evaluates one nest; its stores write into `buffers`.

    Args:
        nest: The loops.
        buffers: Every buffer that it loads from or stores to, with the strides that its indices were made for.
        sizes: Values of symbols.
        precision: What to compute in instead of float32.
    """
    space = _Space(nest, sizes or {}, precision)
    if any(length == 0 for length in space.lengths.values()):
        return
    for value in nest.body:
        space.values.append(space.evaluate(value, buffers))


def bind_sizes(program: Program, inputs: Mapping[str, torch.Tensor | int]) -> dict[sympy.Symbol, int]:
    """The value of each symbolic size in a call."""
    sizes = {}
    for entry in program.graph.symbols:
        given = inputs[entry.input_node]
        if isinstance(given, torch.Tensor):
            given = given.shape[entry.dim or 0]
        sizes[entry.symbol] = int(given)
    return sizes


def _sizes_made(
    program: Program, names: tuple[str, ...], buffers: Mapping[str, torch.Tensor]
) -> dict[sympy.Symbol, int]:
    """The sizes that only the data tell, of buffers that there are by now."""
    made = (size for size in program.graph.data_sizes if size.node in names)
    return {size.symbol: buffers[size.node].shape[size.dim] for size in made}


def number_of(size: Size | float, sizes: Sizes) -> Any:
    """A size or scalar as a Python number."""
    if isinstance(size, sympy.Expr):
        value = size.subs(sizes)
        return int(value) if value.is_Integer else float(value)
    return size


class _Space:
    """One nest being evaluated."""

    def __init__(self, nest: Nest, sizes: Sizes, precision: torch.dtype | None) -> None:
        self.nest = nest
        self.sizes = sizes
        self.precision = precision
        self.order = {axis.name: i for i, axis in enumerate(nest.axes)}
        self.lengths = {axis.name: int(number_of(axis.size, sizes)) for axis in nest.axes}
        self.values: list[torch.Tensor] = []

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        return self.precision if dtype is torch.float32 and self.precision is not None else dtype

    def scalar(self, value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.full([1] * len(self.order), value, dtype=self.dtype(dtype))

    def position(self, index: Index) -> torch.Tensor:
        """An index over the whole space."""
        at = self.scalar(number_of(index.offset, self.sizes), torch.int64)
        for axis, step in index.axes:
            shape = [1] * len(self.order)
            shape[self.order[axis]] = self.lengths[axis]
            at = at + torch.arange(self.lengths[axis]).reshape(shape) * number_of(step, self.sizes)
        for value, step in index.values:
            at = at + self.values[value].to(torch.int64) * number_of(step, self.sizes)
        return at

    def evaluate(self, value: Value, buffers: Mapping[str, torch.Tensor]) -> torch.Tensor:
        match value:
            case Load():
                return self.load(value, buffers[value.buffer])
            case Store():
                return self.store(value, buffers[value.buffer])
            case Constant() | Scalar():
                return self.scalar(number_of(value.value, self.sizes), value.dtype)
            case IndexExpression():
                return self.position(value.index).to(value.dtype)
            case AxisSize():
                return self.scalar(math.prod(self.lengths[axis] for axis in value.axes), value.dtype)
            case Reduce():
                return self.reduce(value)
            case Pointwise():
                return self.pointwise(value)
        raise LoweringError(f"{type(value).__name__} is no value of a body.")

    def load(self, value: Load, buffer: torch.Tensor) -> torch.Tensor:
        at = self.position(value.index)
        memory = flat(buffer)
        if value.mask is None:
            return memory[at].to(self.dtype(value.dtype))
        at, mask = torch.broadcast_tensors(at, self.values[value.mask])
        if memory.numel() == 0:
            memory = memory.new_zeros(1)
        loaded = memory[torch.where(mask, at, 0)].to(self.dtype(value.dtype))
        return torch.where(mask, loaded, self.scalar(value.other, value.dtype))

    def store(self, value: Store, buffer: torch.Tensor) -> torch.Tensor:
        stored = self.values[value.value]
        at, stored = torch.broadcast_tensors(self.position(value.index), stored)
        if value.mask is not None:
            at, stored, mask = torch.broadcast_tensors(at, stored, self.values[value.mask])
            at, stored = at[mask], stored[mask]
        if value.adds:
            flat(buffer).index_put_((at,), stored.to(buffer.dtype), accumulate=True)
        else:
            flat(buffer)[at] = stored.to(buffer.dtype)
        return stored

    def pointwise(self, value: Pointwise) -> torch.Tensor:
        args = [self.values[arg] for arg in value.args]
        if value.op is PointwiseOp.CAST:
            dtype = self.dtype(value.dtype)
            narrow = value.narrow
            return args[0].to(dtype) if narrow is None else args[0].to(narrow).to(dtype)
        computed = PRIMITIVES[value.op].in_torch(*args)
        expected = self.dtype(value.dtype)
        if computed.dtype is not expected:
            raise LoweringError(f"{value} gives {computed.dtype}, not {expected}.")
        return computed

    def reduce(self, value: Reduce) -> torch.Tensor:
        argument = self.values[value.arg]
        dims = [self.order[axis] for axis in value.axes]
        if any(argument.shape[dim] != self.lengths[axis] for dim, axis in zip(dims, value.axes, strict=True)):
            raise LoweringError(f"{value} reduces over an axis that its argument does not vary over.")
        kept = [dim for dim in range(argument.dim()) if dim not in dims]
        rows = argument.permute(*kept, *dims).reshape([argument.shape[dim] for dim in kept] + [-1])
        reduced = REDUCTIONS[value.op].of_rows(rows).to(self.dtype(value.dtype))
        shape = [1 if dim in dims else argument.shape[dim] for dim in range(argument.dim())]
        return reduced.reshape(shape)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's memory as one dimension, from its first element to its last."""
    if tensor.numel() == 0:
        return tensor.new_empty(0)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((extent,), (1,))


def take_view(view: View, buffers: Mapping[str, torch.Tensor], sizes: Sizes) -> torch.Tensor:
    """The tensor that a view is, by its words; LoweringError if its shape is not what the view says."""
    tensor = buffers[view.buffer]
    for call in view.calls:
        args = [_argument(arg, buffers, sizes) for arg in call.args]
        tensor = call.target(tensor, *args)
    shape = tuple(number_of(size, sizes) for size in view.shape)
    if tuple(tensor.shape) != shape:
        raise LoweringError(
            f"The words {view.calls} of {view.buffer} give {tuple(tensor.shape)}, not {shape}."
        )
    return tensor


def _argument(value: Any, buffers: Mapping[str, torch.Tensor], sizes: Sizes) -> Any:
    if isinstance(value, View):
        return take_view(value, buffers, sizes)
    if isinstance(value, tuple):
        return [_argument(item, buffers, sizes) for item in value]
    return number_of(value, sizes) if isinstance(value, sympy.Expr) else value


def _run_extern(
    step: Extern, called: Callable[..., Any], buffers: dict[str, torch.Tensor], sizes: Sizes
) -> None:
    args = _argument(step.args, buffers, sizes)
    kwargs = {name: _argument(value, buffers, sizes) for name, value in step.kwargs}
    made = called(*args, **kwargs)
    if step.memory_format is not None:
        made = made.contiguous(memory_format=step.memory_format)
    several = isinstance(made, list | tuple)
    for name, tensor in zip(step.outputs, made if several else [made], strict=bool(step.outputs)):
        if name:
            buffers[name] = tensor


def _allocate(buffer: Buffer, sizes: Sizes, precision: torch.dtype | None) -> torch.Tensor:
    shape = [number_of(size, sizes) for size in buffer.shape]
    stride = [number_of(size, sizes) for size in buffer.stride]
    short = buffer.dtype in (torch.float16, torch.bfloat16, torch.float32)
    dtype = torch.float64 if precision is torch.float64 and short else buffer.dtype
    tensor = torch.empty_strided(shape, stride, dtype=dtype)
    # A read of what nothing wrote must not look right by chance.
    return tensor.fill_(math.nan) if dtype.is_floating_point else tensor.fill_(dtype is torch.bool or 107)


def _bind_inputs(program: Program, inputs: Mapping[str, torch.Tensor | int]) -> dict[str, torch.Tensor]:
    constants = {
        entry.node: program.graph.constants[entry.target]
        for entry in program.graph.inputs
        if entry.kind in (InputKind.CONSTANT, InputKind.BUFFER) and entry.target in program.graph.constants
    }
    given = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    return {**constants, **given}
