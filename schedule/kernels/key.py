"""The canonical hash of a kernel: what is printed, up to the words.

Two plans with equal keys are one file: the same math over the same kind of space with the same addresses and dtypes,
and with the same tunables, but for those that follow from how many elements there are. Sizes, buffers, names, origins
and the values of scalars are not in it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from longhand.lower.ir import (
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    Reduce,
    Scalar,
    Store,
    Value,
)
from longhand.schedule.kernels.address_terms import Address, ParameterRef, Product, ScalarRef, SizeOf
from longhand.schedule.kernels.kernel_plan import KernelPlan, OnlineSoftmax, Pass, ScalarParameter


def kernel_key(plan: KernelPlan) -> str:
    """The hash of a plan (its own `key` is not looked at)."""
    return hashlib.sha256(repr(CanonicalPlan(plan).everything()).encode()).hexdigest()[:32]


def kind_of_number(parameter: ScalarParameter) -> str:
    """How a number is passed, as keys hold it."""
    return str(parameter.dtype) + ", varies" * parameter.varies


class CanonicalPlan:
    """A plan's content with numbers for names."""

    def __init__(self, plan: KernelPlan) -> None:
        self.plan = plan
        self.axis = {axis.name: number for number, axis in enumerate(plan.axes)}
        self.pointer = {pointer.name: number for number, pointer in enumerate(plan.pointers)}
        self.integer = {parameter.name: number for number, parameter in enumerate(plan.ints)}
        self.scalar = {parameter.position: number for number, parameter in enumerate(plan.scalars)}

    def everything(self) -> tuple[Any, ...]:
        """All that is printed."""
        plan = self.plan
        return (
            plan.schedule.name,
            tuple(axis.role.value for axis in plan.axes),
            tuple((str(pointer.dtype), pointer.access.value, pointer.scratch) for pointer in plan.pointers),
            self.integers(),
            self.scalars(),
            tuple(self.value(position, value) for position, value in enumerate(plan.body)),
            self.tunables(),
            tuple(self.loop(one) for one in plan.passes),
            plan.before,
            tuple((p.position, self.pointer[p.pointer], p.is_index) for p in plan.partials),
            plan.guards,
            tuple((load, repr(plan.padding[load])) for load in sorted(plan.padding)),
            False,  # in the keys that units' ledgers hold: widths once told kernels apart
            *([tuple(pointer.many for pointer in plan.pointers)] if plan.schedule.is_over_lists else []),
        )

    def tunables(self) -> tuple[Any, ...]:
        """The block at the top of the file."""
        return tuple((t.name,) if t.by_size else (t.name, t.value) for t in self.plan.tunables)

    def integers(self) -> tuple[Any, ...]:
        """The stride and offset arguments."""
        return tuple(
            None if parameter.pointer is None else self.pointer[parameter.pointer]
            for parameter in self.plan.ints
        )

    def scalars(self) -> tuple[Any, ...]:
        """The arguments that are numbers."""
        return tuple(map(kind_of_number, self.plan.scalars))

    def value(self, position: int, value: Value) -> tuple[Any, ...]:
        """A value of the body, with numbers for names."""
        dtype = "" if isinstance(value, Store) else str(value.dtype)
        match value:
            case Load():
                content: tuple[Any, ...] = (
                    self.pointer[value.buffer],
                    self.address(position),
                    value.mask,
                    repr(value.other),
                )
            case Constant():
                content = (repr(value.value),)
            case Scalar():
                content = (self.scalar[position],)
            case IndexExpression():
                content = (self.address(position),)
            case AxisSize():
                content = tuple(sorted(self.axis[axis] for axis in value.axes))
            case Pointwise():
                content = (value.op.value, value.args, str(value.narrow))
            case Reduce():
                content = (value.op.value, value.arg, tuple(self.axis[axis] for axis in value.axes))
            case Store():
                content = (self.pointer[value.buffer], self.address(position), value.value, value.mask)
                content += ("adds",) if value.adds else ()
        return (type(value).__name__, dtype, content)

    def address(self, position: int) -> tuple[Any, ...]:
        """Where a value of the body is read or written."""
        address: Address = self.plan.addresses[position]
        return (
            tuple((self.axis[axis], self.product(factors)) for axis, factors in address.axes),
            tuple((value, self.product(factors)) for value, factors in address.values),
            tuple(self.product(factors) for factors in address.offset),
        )

    def product(self, factors: Product) -> tuple[Any, ...]:
        """A product of sizes and arguments."""
        key_factors: list[Any] = []
        for factor in factors:
            match factor:
                case SizeOf(axis):
                    key_factors.append(("size", self.axis[axis]))
                case ParameterRef(name):
                    key_factors.append(("int", self.integer[name]))
                case ScalarRef(position):
                    key_factors.append(("scalar", self.scalar[position]))
                case _:
                    key_factors.append(factor)
        return tuple(key_factors)

    def loop(self, one: Pass) -> tuple[Any, ...]:
        """A pass over the space."""
        reductions = tuple(
            (entry.max, entry.sum) if isinstance(entry, OnlineSoftmax) else entry for entry in one.reductions
        )
        stages = tuple((stage.position, stage.store) for stage in one.stages)
        sums = (one.sums,) if one.sums else ()
        return one.compute, one.from_stage, reductions, stages, one.stores, one.then, *sums
