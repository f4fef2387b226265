"""Triton kernels over lists of tensors: the functions of Style.FOREACH, their parameters and their launch.

Each program finds its group in a table, takes the pointers to the group's tensors from it, and goes on as an
elementwise kernel does. `params_ptr` is where the addresses of a list's tensors lie, `param_ptr` one of these tensors.
"""

from __future__ import annotations

from longhand.emit.names.unit_names import KernelNames
from longhand.emit.triton.scope import FileScope
from longhand.emit.triton.space import Side, Space
from longhand.emit.triton.types import language_dtype
from longhand.emit.triton.unlooped import (
    FunctionText,
    KernelText,
    block_body,
    paragraph_context,
    side_words,
)
from longhand.schedule.plan import KernelPlan, Pointer

_TABLE = (("tensor_of_block", "int64, for each program"), ("first_block", "int64 (n_tensors,)"))


def lists(plan: KernelPlan) -> tuple[Pointer, ...]:
    """The pointers that stand for lists, in order."""
    return tuple(pointer for pointer in plan.pointers if pointer.many)


def foreach(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One program for each block of elements of each group; without an axis one for each group."""
    cols = side_words(plan, plan.cols, names, scope, "col", "n_cols")
    space = Space(
        flats=(cols.flat,) if cols.keys else (),
        rows=Side(),
        cols=Side(cols.keys, "BLOCK" if cols.keys else "", "in_range"),
    )
    body, block = block_body(plan, names, scope, space, range(len(plan.body)))
    context = paragraph_context(plan, side_words(plan, (), names, scope, "row", "n_rows"), cols, body)
    context["lists"] = [names.lists[pointer.name] for pointer in lists(plan)]
    alignment = "ALIGNMENT" if cols.keys else "1"
    context["tensors"] = [
        f"{names.pointers[pointer.name]}_ptr = tensor_pointer("
        f"{names.lists[pointer.name]}_ptr + tensor, {language_dtype(pointer.dtype)}, {alignment})"
        for pointer in lists(plan)
    ]
    context["constants"] = {"ALIGNMENT": "table.alignment", "BLOCK": "BLOCK"} if cols.keys else {}
    does = (
        "Each program computes BLOCK elements of a tensor" if cols.keys else "Each program does one element"
    )
    constants = (
        (
            ("ALIGNMENT", "all addresses (bytes) and sizes (elements) are multiples of it: 16 or 1"),
            ("BLOCK", ""),
        )
        if cols.keys
        else ()
    )
    function = FunctionText(does, context, constants)
    return KernelText((function,), frozenset({*block.functions, "tensor_pointer"}))


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
