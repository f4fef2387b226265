"""A block of elements of one of many tensors for each program."""

from __future__ import annotations

from longhand.emit.text.expression import compose, outside, word
from longhand.emit.triton.functions import (
    FunctionText,
    KernelText,
    block_body,
    lists,
    paragraph_context,
    side_names,
)
from longhand.emit.triton.scope import FileScope, language_dtype
from longhand.emit.triton.space import Side, Space
from longhand.schedule.named_plan import KernelNames, pointer_word
from longhand.schedule.plan import KernelPlan


def functions(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One program for each block of elements of each group; without an axis one for each group."""
    cols = side_names(plan, plan.cols, names, scope, "col", "n_cols")
    space = Space(
        flats=(cols.flat,) if cols.keys else (),
        rows=Side(),
        cols=Side(cols.keys, "BLOCK" if cols.keys else "", "in_range"),
    )
    body = block_body(plan, names, scope, space, range(len(plan.body)))
    context = paragraph_context(plan, side_names(plan, (), names, scope, "row", "n_rows"), cols, body)
    context["lists"] = [names.lists[pointer.name] for pointer in lists(plan)]
    alignment = "ALIGNMENT" if cols.keys else "1"
    context["tensors"] = [
        compose(
            "{} = {}({} + tensor, {}, {})",
            pointer_word(names.pointers[pointer.name]),
            outside("tensor_pointer"),
            word(pointer_word(names.lists[pointer.name])),
            language_dtype(pointer.dtype),
            alignment,
        )
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
    return KernelText((function,))
