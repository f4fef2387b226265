"""What is said of a kernel's tensor that no shape says: ``rows of x_stride elements``, ``read at computed places``."""

from __future__ import annotations

from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import Access, KernelPlan, Pointer, row_stride


def places_comment(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> str:
    """Where its elements lie, or that data or several conditions say that."""
    stride = row_stride(plan, pointer)
    if stride is not None:
        return f"rows of {names.ints[stride]} elements"
    return f"{'read' if pointer.access is Access.READ else 'written'} at computed places"
