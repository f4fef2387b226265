"""Horizontal fusion: one launch for what a kernel does to many groups of tensors that do not read each other's results.

An optimizer's step does the same to the parameter, the gradient and the state of every weight. Fusion leaves it as one
small launch for each weight; this makes them one launch over lists of tensors of any sizes (the FOREACH schedule).

How others do it. Apex and PyTorch's `multi_tensor_apply` pass the kernel a struct of addresses and sizes and a number
of the tensor and of its chunk for each block; what a launch's arguments cannot hold becomes the next launch (4 kB:
about 100 tensors and 320 blocks, so AdamW of GPT-2 takes over a thousand). Inductor's foreach kernels take each tensor
as an argument of its own and choose among as many copies of the body by comparing the program's number: the text grows
with the list, and is cut into kernels of some hundred arguments. Here the addresses, sizes and first blocks lie in a
table in memory, so that the text has one body, and one launch takes all of them. A program finds its tensor by one
load; what that costs is shared by all of the program's elements. The table is made again when a tensor has moved: a
gradient that was set to None, say (templates/runtime/tensor_lists.py.jinja).

Members of a launch agree in the body, its dtypes and the values of its scalars, but not in the number of elements: a
tensor of one element, whose kernel has no axis, may stand beside others. Strided tensors keep launches of their own.
What leads from one member to another keeps them apart, and groups are given up where together they would wait for each
other. Where less than `FEWEST` would be joined, nothing changes, and so it is in modules: their layers are what
repeats.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import torch

from longhand.capture.graph import CapturedGraph
from longhand.lower.ir import (
    AxisSize,
    Buffer,
    BufferKind,
    Extern,
    IndexExpression,
    Load,
    Nest,
    Reduce,
    Size,
    Step,
    Store,
)
from longhand.options import Options
from longhand.schedule.dependencies import predecessors
from longhand.schedule.fusion.profit import body_signature
from longhand.schedule.fusion.result_order import with_stores_in_order
from longhand.schedule.kernels.key import kernel_key
from longhand.schedule.kernels.schedules import foreach
from longhand.schedule.kernels.schedules.elementwise import ELEMENTWISE
from longhand.schedule.kernels.schedules.entry import KernelWork
from longhand.schedule.kernels.schedules.foreach import FOREACH
from longhand.schedule.kernels.schedules.registry import choose_tunables
from longhand.schedule.plan import Access, Address, Group, KernelPlan, Launch, Pointer, Tunable
from longhand.schedule.sizes import plus
from longhand.schedule.targets import TargetFacts, facts_of

FEWEST = 4  # launches that are worth a list

Planned = Launch | Extern
_BodySignature = tuple[
    str, tuple[float | Size, ...]
]  # what members agree in: the body up to its axis, the scalars


def fuse_horizontally(
    planned: Sequence[Planned],
    steps: Sequence[Nest | Extern],
    kernels: Mapping[str, KernelPlan],
    buffers: Mapping[str, Buffer],
    graph: CapturedGraph,
    options: Options,
) -> tuple[list[Planned], dict[str, KernelPlan]]:
    """The launches with those of many groups of tensors joined, and the kernels that they name.

    Args:
        planned: In order.
        steps: What each of them does, in the same order.
        kernels: By key.
        buffers: Of the program.
        graph: Where the program came from.
        options: The device decides about tunables.
    """
    unchanged = list(planned), dict(kernels)
    if not _has_lists(graph):
        return unchanged
    alike = _alike(planned, kernels, facts_of(options.target))
    alike = _given_lists(alike, steps, buffers)
    if not alike:
        return unchanged
    waits = predecessors(steps)
    order: list[tuple[int, ...]] = [(number,) for number in range(len(planned))]
    joined: list[tuple[int, ...]] = []
    for members in sorted(_independent(alike, waits), key=len, reverse=True):
        ordered = _ordered([*joined, members], waits)
        if ordered is not None:
            order, joined = ordered, [*joined, members]
    made: dict[str, KernelPlan] = {}
    result: list[Planned] = []
    for members in order:
        if len(members) == 1:
            result.append(planned[members[0]])
            continue
        plan, launch = _join([_launch(planned[number]) for number in members], kernels, options)
        made.setdefault(plan.key, plan)
        result.append(launch)
    used = dict.fromkeys(step.kernel for step in result if isinstance(step, Launch))
    return result, {key: made[key] if key in made else kernels[key] for key in used}


def in_one_order(steps: Sequence[Step], graph: CapturedGraph, position_of: Mapping[str, int]) -> list[Step]:
    """The steps, bodies that may stand in lists in an order that does not tell in which order fusion found them.

    So are those of a backward pass that only add up: the gradients of a norm's weight and bias are one kernel.

    Args:
        steps: What will be planned.
        graph: Where the program came from.
        position_of: Where each node of the graph stands in it.
    """
    if graph.paths:
        return [_in_one_order(one, position_of) if _only_adds_up(one) else one for one in steps]
    if not _has_lists(graph):
        return list(steps)
    kinds = [body_signature(step) if isinstance(step, Nest) else None for step in steps]
    count = Counter(kinds)
    return [
        (
            _in_one_order(step, position_of)
            if isinstance(step, Nest)
            and count[kind] >= FEWEST
            and not any(isinstance(value, Reduce) for value in step.body)
            else step
        )
        for step, kind in zip(steps, kinds, strict=True)
    ]


def _only_adds_up(step: Step) -> TypeGuard[Nest]:
    """Whether a step stores several values, each of them a reduction."""
    stored = (
        [step.body[one.value] for one in step.body if isinstance(one, Store)]
        if isinstance(step, Nest)
        else []
    )
    return len(stored) > 1 and all(isinstance(value, Reduce) for value in stored)


def _in_one_order(nest: Nest, position_of: Mapping[str, int]) -> Nest:
    """Loads, then what the stores need of them, store by store in the graph's order, then the stores."""
    stores = [position for position, value in enumerate(nest.body) if isinstance(value, Store)]
    stores.sort(key=lambda position: position_of.get(nest.body[position].origin, -1))
    return with_stores_in_order(nest, stores)


def _has_lists(graph: CapturedGraph) -> bool:
    """Whether a graph is one of a function: what repeats in modules is their layers, and their memory must not grow."""
    return not (graph.is_module or graph.n_saved or graph.paths)


def _launch(step: Planned) -> Launch:
    assert isinstance(step, Launch)
    return step


def _alike(
    planned: Sequence[Planned], kernels: Mapping[str, KernelPlan], target: TargetFacts
) -> dict[_BodySignature, list[int]]:
    """The launches that may stand in lists, by what they must agree in, where there are enough."""
    bodies = {key: _body_key(plan) for key, plan in kernels.items() if _is_listable(plan, target)}
    by_walk: dict[_BodySignature, dict[tuple[bool, ...], list[int]]] = {}
    for number, step in enumerate(planned):
        if isinstance(step, Launch) and step.kernel in bodies:
            walks = by_walk.setdefault((bodies[step.kernel], step.scalars), {})
            walks.setdefault(_walk(kernels[step.kernel]), []).append(number)
    alike: dict[_BodySignature, list[int]] = {}
    for (body, scalars), walks in by_walk.items():
        single = walks.pop(_OF_ONE_ELEMENT, [])
        most = max(walks, key=lambda walk: len(walks[walk]), default=_OF_ONE_ELEMENT)
        walks[most] = sorted([*walks.get(most, []), *single])
        for walk, numbers in walks.items():
            if len(numbers) >= FEWEST:
                alike[f"{body} {walk}", scalars] = numbers
    return alike


_OF_ONE_ELEMENT: tuple[bool, ...] = ()  # which has no axis to walk, and is as good as any


def _walk(plan: KernelPlan) -> tuple[bool, ...]:
    """Which of its accesses go along the axis: not that of a single number, which all elements are computed with."""
    if not plan.axes:
        return _OF_ONE_ELEMENT
    return tuple(bool(address.axes) for _, address in sorted(plan.addresses.items()))


def _is_listable(plan: KernelPlan, target: TargetFacts) -> bool:
    """Whether a kernel walks whole tensors element by element, from the first on."""
    if plan.schedule != ELEMENTWISE or plan.rows or plan.ints:
        return False
    if any(isinstance(value, AxisSize | IndexExpression) for value in plan.body):
        return False
    if any(address.values or address.offset for address in plan.addresses.values()):
        return False
    return target.lists_hold_bools or all(pointer.dtype is not torch.bool for pointer in plan.pointers)


def _body_key(plan: KernelPlan) -> str:
    """The hash of what a kernel does to an element."""
    addresses = {position: Address(()) for position in plan.addresses}
    return kernel_key(dataclasses.replace(plan, axes=(), addresses=addresses, tunables=()))


def _given_lists(
    alike: Mapping[_BodySignature, list[int]], steps: Sequence[Nest | Extern], buffers: Mapping[str, Buffer]
) -> dict[_BodySignature, list[int]]:
    """Those whose tensors the caller holds, or launches of the same kind make: elsewhere memory would live longer."""
    of_lists = {number for numbers in alike.values() for number in numbers}
    others = {
        value.buffer
        for number, step in enumerate(steps)
        if number not in of_lists and not isinstance(step, Extern)
        for value in step.body
        if isinstance(value, Store)
    }
    others |= {name for step in steps if isinstance(step, Extern) for name in (*step.outputs, *step.mutates)}

    def is_of_list(number: int) -> bool:
        step = steps[number]
        assert not isinstance(step, Extern)
        return not any(
            isinstance(value, Load)
            and value.index.axes
            and value.buffer in others
            and buffers[value.buffer].kind is BufferKind.INTERMEDIATE
            for value in step.body
        )

    return {signature: numbers for signature, numbers in alike.items() if all(is_of_list(n) for n in numbers)}


def _independent(
    alike: Mapping[_BodySignature, list[int]], waits: Sequence[set[int]]
) -> list[tuple[int, ...]]:
    """Launches none of which waits for another, by way of whatever; enough of them for a list."""
    launches: list[tuple[int, ...]] = []
    for numbers in alike.values():
        is_member = set(numbers)
        depth: list[int] = []  # how many members the longest way to a step passes
        levels: dict[int, list[int]] = {}
        for number, before in enumerate(waits):
            depth.append(max((depth[other] + (other in is_member) for other in before), default=0))
            if number in is_member:
                levels.setdefault(depth[number], []).append(number)
        launches += [tuple(level) for level in levels.values() if len(level) >= FEWEST]
    return launches


def _ordered(joined: Sequence[tuple[int, ...]], waits: Sequence[set[int]]) -> list[tuple[int, ...]] | None:
    """The steps in order, those of a launch together where its last one stood; None if they wait in a circle."""
    of_step = {number: members for members in joined for number in members}
    nodes = list(dict.fromkeys(of_step.get(number, (number,)) for number in range(len(waits))))
    before = {
        node: {of_step.get(other, (other,)) for number in node for other in waits[number]} - {node}
        for node in nodes
    }
    after: dict[tuple[int, ...], list[tuple[int, ...]]] = {node: [] for node in nodes}
    for node, others in before.items():
        for other in others:
            after[other].append(node)
    open_waits = {node: len(others) for node, others in before.items()}
    ready = [(node[-1], node) for node in nodes if not open_waits[node]]
    heapq.heapify(ready)
    ordered: list[tuple[int, ...]] = []
    while ready:
        _, node = heapq.heappop(ready)
        ordered.append(node)
        for later in after[node]:
            open_waits[later] -= 1
            if not open_waits[later]:
                heapq.heappush(ready, (later[-1], later))
    return ordered if len(ordered) == len(nodes) else None


def _join(
    launches: Sequence[Launch], kernels: Mapping[str, KernelPlan], options: Options
) -> tuple[KernelPlan, Launch]:
    """One kernel and one launch for all groups."""
    # One with an axis, if there is any, shows how the tensors vary along it.
    first = max(launches, key=lambda launch: len(kernels[launch.kernel].axes))
    shown = kernels[first.kernel]
    pointers = tuple(
        dataclasses.replace(pointer, many=_is_list(pointer, [launch.buffers[place] for launch in launches]))
        for place, pointer in enumerate(shown.pointers)
    )
    plan = dataclasses.replace(shown, schedule=FOREACH, pointers=pointers, tunables=_tunables(shown, options))
    plan = dataclasses.replace(plan, key=kernel_key(plan))
    sizes = [launch.sizes or (1,) * len(shown.axes) for launch in launches]
    total: Size = 0
    for launch in launches:
        total = plus(total, launch.bytes_moved)
    return plan, dataclasses.replace(
        launches[0],
        kernel=plan.key,
        sizes=sizes[0],
        origins=tuple(dict.fromkeys(origin for launch in launches for origin in launch.origins)),
        bytes_moved=total,
        others=tuple(
            Group(launch.buffers, size) for launch, size in zip(launches[1:], sizes[1:], strict=True)
        ),
    )


def _is_list(pointer: Pointer, given: Sequence[str]) -> bool:
    """Whether the groups have tensors of their own for a pointer."""
    return bool(pointer.dims) or pointer.access is not Access.READ or len(set(given)) > 1


def _tunables(plan: KernelPlan, options: Options) -> tuple[Tunable, ...]:
    widest = max(pointer.dtype.itemsize for pointer in plan.pointers)
    work = KernelWork(has_rows=False, has_cols=bool(plan.cols), element_bytes=widest)
    return choose_tunables(foreach.ENTRY, facts_of(options.target), work)
