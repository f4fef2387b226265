"""Planned steps and kernels under other names: the same work for another layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from longhand.lower.ir import Extern, Load, Store, Value, View
from longhand.schedule.kernels.address_terms import Address, ParameterRef, Product
from longhand.schedule.kernels.kernel_plan import IntParameter, KernelPlan, Pointer
from longhand.schedule.plan import Allocate, Group, Launch, PlanStep, Release, Repeat, Reuse, UnitStep

Names = Mapping[str, str]  # of buffers and nodes; what is not in it keeps its name


def renamed_plan_step(step: PlanStep, names: Names) -> PlanStep:
    """The step on other buffers, for other nodes."""
    match step:
        case Launch():
            buffers, origins = renamed_all(step.buffers, names), renamed_all(step.origins, names)
            others = tuple(Group(renamed_all(group.buffers, names), group.sizes) for group in step.others)
            return Launch(
                step.kernel,
                buffers,
                step.sizes,
                step.ints,
                step.scalars,
                origins,
                step.bytes_moved,
                others,
            )
        case Extern():
            return Extern(
                step.target,
                renamed_argument(step.args, names),
                renamed_argument(step.kwargs, names),
                renamed_all(step.outputs, names),
                renamed_all(step.mutates, names),
                step.reason,
                names.get(step.origin, step.origin),
                step.memory_format,
                renamed_all(step.measured, names),
            )
        case Allocate():
            beside, like = renamed_all(step.beside, names), renamed_all(step.like, names)
            return Allocate(names.get(step.buffer, step.buffer), step.is_result, beside, like)
        case Reuse():
            return Reuse(names.get(step.buffer, step.buffer), names.get(step.of, step.of), step.in_place)
        case Release():
            return Release(renamed_all(step.buffers, names))


def renamed_all(values: tuple[str, ...], names: Names) -> tuple[str, ...]:
    """The names, those that have another replaced."""
    return tuple(names.get(value, value) for value in values)


def renamed_argument(argument: Any, names: Names) -> Any:
    """An argument of a library call, or a result of the call, on other buffers."""
    if isinstance(argument, View):
        calls = tuple(
            dataclasses.replace(call, origin=names[call.origin]) if call.origin in names else call
            for call in argument.calls
        )
        buffer = names.get(argument.buffer, argument.buffer)
        return View(buffer, argument.shape, argument.stride, argument.offset, calls)
    if isinstance(argument, tuple):
        return tuple(renamed_argument(part, names) for part in argument)
    return argument


def renamed_step(step: UnitStep, names: Names) -> UnitStep:
    """The step on other buffers, for other nodes; a repeat keeps its paths."""
    if not isinstance(step, Repeat):
        return renamed_plan_step(step, names)

    def each(runs: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        return tuple(renamed_all(run, names) for run in runs)

    runs = tuple(tuple(renamed_plan_step(inner, names) for inner in run) for run in step.runs)
    columns = (step.inputs, step.outputs, step.own, step.previous, step.following)
    inputs, outputs, own, previous, following = map(each, columns)
    return Repeat(runs, step.paths, inputs, outputs, own, previous, step.kinds, step.family, following)


def renamed_kernel(kernel: KernelPlan, names: Names) -> KernelPlan:
    """A kernel that is first launched by a step with other names: its pointers and its nodes have them, too."""
    ints = {
        entry.name: names.get(entry.pointer, entry.pointer) + entry.name.removeprefix(entry.pointer)
        for entry in kernel.ints
        if entry.pointer is not None
    }

    def of_value(value: Value) -> Value:
        if isinstance(value, Load | Store) and value.buffer in names:
            value = dataclasses.replace(value, buffer=names[value.buffer])
        return dataclasses.replace(value, origin=names[value.origin]) if value.origin in names else value

    def of_product(product: Product) -> Product:
        return tuple(
            ParameterRef(ints.get(factor.name, factor.name)) if isinstance(factor, ParameterRef) else factor
            for factor in product
        )

    def of_address(address: Address) -> Address:
        return dataclasses.replace(
            address,
            axes=tuple((axis, of_product(product)) for axis, product in address.axes),
            values=tuple((position, of_product(product)) for position, product in address.values),
            offset=tuple(of_product(product) for product in address.offset),
        )

    def of_pointer(pointer: Pointer) -> Pointer:
        name, aliases = names.get(pointer.name, pointer.name), renamed_all(pointer.may_alias, names)
        return dataclasses.replace(pointer, name=name, may_alias=tuple(sorted(aliases)))

    def of_addresses(addresses: Mapping[int, Address]) -> dict[int, Address]:
        return {position: of_address(address) for position, address in addresses.items()}

    halves = kernel.halves
    if halves is not None:
        body = tuple(map(of_value, halves.body))
        halves = dataclasses.replace(halves, body=body, addresses=of_addresses(halves.addresses))
    return dataclasses.replace(
        kernel,
        body=tuple(map(of_value, kernel.body)),
        addresses=of_addresses(kernel.addresses),
        halves=halves,
        pointers=tuple(map(of_pointer, kernel.pointers)),
        ints=tuple(
            IntParameter(
                ints.get(entry.name, entry.name), names.get(entry.pointer or "", entry.pointer), entry.axis
            )
            for entry in kernel.ints
        ),
        origins=renamed_all(kernel.origins, names),
    )
