"""Kernels that a library does as well: one cheap op on a whole tensor, in place, or one number everywhere.

A kernel earns its file by what it fuses, or by arithmetic that it does faster. ``relu`` alone, over what it reads, does
neither: memory is all that it waits for, and ``torch.relu_(hidden)`` is one line that everybody knows. An op that needs
memory for its result stays a kernel: on the CPU results come from a pool that torch's own calls do not use. A kernel
that reads nothing and writes one number is ``total.zero_()``, in whatever memory it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import fx

from longhand.lower.ir import Buffer, Constant, Extern, Store, View
from longhand.schedule.plan import KernelPlan, Launch, PlanStep, Reuse
from longhand.schedule.sizes import product, same

aten = torch.ops.aten

# Ops of one tensor that cost less than reading it, and what does them in place.
_IN_PLACE: Mapping[object, torch._ops.OpOverload] = {
    aten.relu.default: aten.relu_.default,
    aten.neg.default: aten.neg_.default,
    aten.abs.default: aten.abs_.default,
    aten.floor.default: aten.floor_.default,
    aten.ceil.default: aten.ceil_.default,
    aten.trunc.default: aten.trunc_.default,
}


def call_plain_ops(
    steps: Sequence[PlanStep],
    kernels: Mapping[str, KernelPlan],
    buffers: Mapping[str, Buffer],
    nodes: Mapping[str, fx.Node],
) -> tuple[list[PlanStep], dict[str, KernelPlan]]:
    """The steps with such launches as library calls, and the kernels that are launched still.

    A kernel that has to be there for another of its launches stays for all of them.

    Args:
        steps: With memory placed.
        kernels: Of the launches.
        buffers: All of them.
        nodes: Of the captured graph.
    """
    calls = {
        number: call
        for number, step in enumerate(steps)
        if isinstance(step, Launch)
        and (call := _plain_call(step, steps[number - 1] if number else None, kernels, buffers, nodes))
        is not None
    }
    kept = {
        step.kernel for number, step in enumerate(steps) if isinstance(step, Launch) and number not in calls
    }
    new_steps = [
        calls[number] if isinstance(step, Launch) and step.kernel not in kept else step
        for number, step in enumerate(steps)
    ]
    return new_steps, {key: kernel for key, kernel in kernels.items() if key in kept}


def _plain_call(
    step: Launch,
    before: PlanStep | None,
    kernels: Mapping[str, KernelPlan],
    buffers: Mapping[str, Buffer],
    nodes: Mapping[str, fx.Node],
) -> Extern | None:
    return _filled(step, kernels[step.kernel], buffers) or _in_place(step, before, buffers, nodes)


def _filled(step: Launch, kernel: KernelPlan, buffers: Mapping[str, Buffer]) -> Extern | None:
    """``zero_``, or ``fill_``, of the whole tensor that a launch writes one number to; None if it does more."""
    match kernel.body:
        case (Constant(value=number), Store(buffer=stored, mask=None, adds=False)) if math.isfinite(number):
            pass
        case _:
            return None
    if len(step.buffers) != 1 or step.others or [pointer.name for pointer in kernel.pointers] != [stored]:
        return None
    result = buffers[step.buffers[0]]
    if not same(product(step.sizes), product(result.shape)) or _is_beyond(number, result.dtype):
        return None
    seen = View(result.name, result.shape, result.stride)
    is_zero = number == 0 and math.copysign(1.0, number) > 0
    target, arguments = (aten.zero_.default, ()) if is_zero else (aten.fill_.Scalar, (number,))
    origin = step.origins[-1] if step.origins else ""
    return Extern(target, (seen, *arguments), (), (), mutates=(result.name,), origin=origin)


def filled_with(step: object, buffer: Buffer) -> float | None:
    """The number that a step fills the whole of a buffer with; None if it does anything else."""
    if not isinstance(step, Extern) or step.mutates != (buffer.name,) or step.reason is not None:
        return None
    match step.args:
        case (View(calls=()) as seen, *numbers) if (seen.shape, seen.stride) == (buffer.shape, buffer.stride):
            number = {aten.zero_.default: 0.0, aten.fill_.Scalar: [*numbers, None][0]}.get(step.target)
            is_told = isinstance(number, int | float) and (number != 0 or math.copysign(1.0, number) > 0)
            return number if is_told else None
    return None


def _is_beyond(number: float, dtype: torch.dtype) -> bool:
    """Whether a kernel makes an infinity of a number where ``fill_`` raises."""
    return dtype.is_floating_point and abs(number) > torch.finfo(dtype).max


def _in_place(
    step: Launch, before: PlanStep | None, buffers: Mapping[str, Buffer], nodes: Mapping[str, fx.Node]
) -> Extern | None:
    """The call that does what a launch does; None if there is none."""
    node = nodes.get(step.origins[0]) if len(step.origins) == 1 else None
    target = _IN_PLACE.get(node.target) if node is not None else None
    if node is None or target is None or len(step.touched) != 2 or not isinstance(before, Reuse):
        return None
    source, result = (buffers[name] for name in step.buffers)
    argument = node.args[0]
    # By their names: what is read is what the op was given, and not a view of it.
    is_whole = isinstance(argument, fx.Node) and (argument.name, node.name) == (source.name, result.name)
    is_over = before.in_place and (before.buffer, before.of) == (result.name, source.name)
    if not is_whole or not is_over or (source.shape, source.stride) != (result.shape, result.stride):
        return None
    seen = View(result.name, result.shape, result.stride)
    return Extern(target, (seen,), (), (), mutates=(result.name,), origin=node.name)
