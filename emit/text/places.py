"""What is said of a kernel's tensor that no shape says: ``rows of x_stride elements``, ``read where index says``."""

from __future__ import annotations

from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import Access, KernelPlan, Pointer, row_stride, told_by_data


def places_comment(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> str:
    """Where its elements lie, or that data or several conditions say that."""
    stride = row_stride(plan, pointer)
    if stride is not None:
        return f"rows of {names.ints[stride]} elements"
    done = "read" if pointer.access is Access.READ else "written"
    data = told_by_data(plan, pointer)
    words = {one.name: names.pointers[one.name] for one in plan.pointers if one.name in names.pointers}
    return f"{done} where {words[data]} says" if data in words else f"{done} at computed places"
