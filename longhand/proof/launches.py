"""The calls that a unit makes of each of its kernels: what the compiler of the kernel must know, and no memory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy

from longhand.emit.unit.lock_file import LOCK
from longhand.lower.ir import Buffer, Size
from longhand.schedule.plan import Launch, UnitPlan, flat_steps
from longhand.telling.summary import concrete


@dataclasses.dataclass(frozen=True)
class TensorFacts:
    """A tensor without its memory."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]


Argument = TensorFacts | tuple[TensorFacts, ...] | int | float
KernelCall = tuple[Argument, ...]  # the host function's arguments, in order


def kernel_names(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """The name of each kernel by its key, as the unit's lock has it."""
    return {key: name for name, key in json.loads(files[LOCK])["kernels"].items()}


def kernel_calls(plans: Iterable[UnitPlan], names: Mapping[str, str]) -> dict[str, tuple[KernelCall, ...]]:
    """For each kernel, by name, the different calls that the unit makes of it on its example.

    Args:
        plans: Of the call, and in training of its backward pass.
        names: By kernel key.
    """
    by_kernel: dict[str, dict[KernelCall, None]] = {}
    for plan in plans:
        examples = plan.program.graph.examples
        facts = {name: _facts(buffer, examples) for name, buffer in plan.buffers.items()}
        for step in flat_steps(plan.steps):
            if isinstance(step, Launch):
                call = _call(step, plan, facts, examples)
                by_kernel.setdefault(names[step.kernel], {})[call] = None
    return {name: tuple(calls) for name, calls in by_kernel.items()}


def as_json(call: KernelCall) -> list[Any]:
    """A call for another process: a tensor as [dtype, shape, stride], a list of tensors as {"list": [...]}."""

    def one(argument: Argument) -> Any:
        if isinstance(argument, TensorFacts):
            return [argument.dtype, argument.shape, argument.stride]
        if isinstance(argument, tuple):
            return {"list": [one(tensor) for tensor in argument]}
        return argument

    return [one(argument) for argument in call]


def _call(
    step: Launch,
    plan: UnitPlan,
    facts: Mapping[str, TensorFacts],
    examples: Mapping[sympy.Symbol, int],
) -> KernelCall:
    kernel = plan.kernels[step.kernel]
    scalars = [value if isinstance(value, float) else concrete(value, examples) for value in step.scalars]
    if kernel.schedule.is_over_lists:
        tensors: list[Argument] = []
        for place, pointer in enumerate(kernel.pointers):
            each = tuple(facts[group.buffers[place]] for group in step.groups)
            tensors.append(each if pointer.many else each[0])
        return (*tensors, *scalars)
    given = [facts[name] for name in step.buffers]
    return (*given, *_numbers(step.sizes, examples), *_numbers(step.ints, examples), *scalars)


def _numbers(sizes: Sequence[Size], examples: Mapping[sympy.Symbol, int]) -> list[int]:
    return [concrete(size, examples) for size in sizes]


def _facts(buffer: Buffer, examples: Mapping[sympy.Symbol, int]) -> TensorFacts:
    shape, stride = _numbers(buffer.shape, examples), _numbers(buffer.stride, examples)
    return TensorFacts(str(buffer.dtype).removeprefix("torch."), tuple(shape), tuple(stride))
