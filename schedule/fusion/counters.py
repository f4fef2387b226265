"""Numbers that a module counts with: all of them are counted in one call, ``torch._foreach_add_(counters, 1)``.

Every batch norm counts the batches that it saw (``num_batches_tracked``). A launch takes the host longer than the GPU
needs for the sum, and a ResNet-50 has 53 of them. Nothing else in the pass may look at such a number, so that it does
not matter when it is counted, and layers that are equal without it are equal still.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch

from longhand.capture.graph import CapturedGraph, InputKind
from longhand.lower.ir import Buffer, Constant, Extern, Load, Pointwise, PointwiseOp, Store, View
from longhand.schedule.plan import KernelPlan, Launch, PlanStep, Repeat, UnitStep, flat_steps, touched

aten = torch.ops.aten
FEWEST = 2  # counters that are worth a list


def count_in_one_call(
    steps: Sequence[UnitStep],
    kernels: Mapping[str, KernelPlan],
    buffers: Mapping[str, Buffer],
    graph: CapturedGraph,
    kept: frozenset[str],
) -> tuple[list[UnitStep], dict[str, KernelPlan]]:
    """The steps with one call first that counts, and the kernels that are launched still.

    Args:
        steps: With all layers.
        kernels: Of the launches.
        buffers: All of them.
        graph: What was captured.
        kept: Buffers that the caller sees.
    """
    unchanged = list(steps), dict(kernels)
    amounts = {key: amount for key, kernel in kernels.items() if (amount := _step_of(kernel)) is not None}
    if not amounts:
        return unchanged
    own = {name: word for name, word in _own_buffers(graph).items() if name not in kept}
    counted = _counted(steps, amounts, buffers, own)
    calls: list[UnitStep] = []
    joined: set[str] = set()
    for kind in dict.fromkeys(counted.values()):
        names = [name for name, other in counted.items() if other == kind]
        if len(names) >= FEWEST:
            calls.append(_call(names, kind[1], buffers))
            joined.update(names)
    if not joined:
        return unchanged
    left = [*calls, *_without(steps, joined)]
    launched = {step.kernel for step in flat_steps(left) if isinstance(step, Launch)}
    return left, {key: kernel for key, kernel in kernels.items() if key in launched}


def _step_of(kernel: KernelPlan) -> int | None:
    """By how much a kernel raises the one whole number that it is given; None if it does anything else."""
    of_kind = {type(value): value for value in kernel.body}
    if len(kernel.body) != 4 or list(map(type, kernel.body[2:])) != [Pointwise, Store]:
        return None
    read, number, added, stored = (of_kind.get(kind) for kind in (Load, Constant, Pointwise, Store))
    is_sum = isinstance(added, Pointwise) and added.op is PointwiseOp.ADD and set(added.args) == {0, 1}
    if not is_sum or not isinstance(read, Load) or not isinstance(number, Constant):
        return None
    assert isinstance(stored, Store)
    is_over = stored.buffer == read.buffer and stored.value == 2 and not stored.adds
    is_plain = not kernel.axes and read.mask is None and stored.mask is None
    is_whole = type(number.value) is int and [one.dtype for one in kernel.pointers] == [torch.int64]
    return int(number.value) if is_over and is_plain and is_whole else None


def _own_buffers(graph: CapturedGraph) -> dict[str, str]:
    """By placeholder what a module calls its buffers: those that have one path."""
    tied = {path for group in graph.tied for path in group}
    return {
        entry.node: entry.target.rpartition(".")[2]
        for entry in graph.inputs
        if entry.kind is InputKind.BUFFER and entry.target not in tied
    }


def _counted(
    steps: Sequence[UnitStep],
    amounts: Mapping[str, int],
    buffers: Mapping[str, Buffer],
    own: Mapping[str, str],
) -> dict[str, tuple[str, int]]:
    """By buffer its name in its module, and how much is added: those that one launch counts and nothing else names."""
    named = Counter(name for step in flat_steps(steps) for name in set(touched(step)))
    counted: dict[str, tuple[str, int]] = {}
    for step in flat_steps(steps):
        if isinstance(step, Launch) and step.kernel in amounts and len(step.touched) == 1:
            (name,) = step.touched
            if name in own and named[name] == 1 and not buffers[name].shape:
                counted[name] = own[name], amounts[step.kernel]
    return counted


def _call(names: Sequence[str], amount: int, buffers: Mapping[str, Buffer]) -> Extern:
    seen = tuple(View(name, buffers[name].shape, buffers[name].stride) for name in names)
    return Extern(aten._foreach_add_.Scalar, (seen, amount), (), (), mutates=tuple(names))


def _without(steps: Iterable[UnitStep], counted: set[str]) -> list[UnitStep]:
    """The steps but those that count."""
    left: list[UnitStep] = []
    for step in steps:
        if isinstance(step, Repeat):
            runs = tuple(tuple(one for one in run if not _counts(one, counted)) for run in step.runs)
            own, previous, following = (
                tuple(tuple(name for name in names if name not in counted) for names in column)
                for column in (step.own, step.previous, step.following)
            )
            if any(
                runs
            ):  # where kernels join neighbours, counting may be all that blocks do one like the other
                left.append(
                    dataclasses.replace(step, runs=runs, own=own, previous=previous, following=following)
                )
        elif not _counts(step, counted):
            left.append(step)
    return left


def _counts(step: PlanStep, counted: set[str]) -> bool:
    return isinstance(step, Launch) and counted.issuperset(step.touched)
