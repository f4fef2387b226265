"""Triton kernels over lists of tensors: their parameters and their launch.

Each program finds its group in a table, takes the pointers to the group's tensors from it, and goes on as an
elementwise kernel does. `params_ptr` is where the addresses of a list's tensors lie, `param_ptr` one of these tensors.
"""

from __future__ import annotations

from longhand.emit.names.unit_names import KernelNames
from longhand.schedule.plan import KernelPlan, Pointer

_TABLE = (("tensor_of_block", "int64, for each program"), ("first_block", "int64 (n_tensors,)"))


def lists(plan: KernelPlan) -> tuple[Pointer, ...]:
    """The pointers that stand for lists, in order."""
    return tuple(pointer for pointer in plan.pointers if pointer.many)


def table_parameters(plan: KernelPlan, names: KernelNames) -> list[tuple[str, str]]:
    """(name, comment) of what the kernel finds its group by."""
    sizes = [(names.axes[axis.name].size, "int64 (n_tensors,)") for axis in plan.cols]
    return [(f"{name}_ptr", comment) for name, comment in (*_TABLE, *sizes)] if sizes else []


def table_arguments(plan: KernelPlan) -> list[str]:
    """What the host function passes for the lists and for `table_parameters`."""
    return [
        "*table.addresses",
        *(["table.tensor_of_block", "table.first_block", "table.n_elements"] if plan.cols else []),
    ]
