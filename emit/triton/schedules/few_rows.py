"""A block of results for each program, and loops over the few rows that each result is made of: as of windows."""

from __future__ import annotations

from longhand.emit.triton.functions import KernelText
from longhand.emit.triton.schedules import windows
from longhand.emit.triton.scope import FileScope
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan


def functions(plan: KernelPlan, names: KernelNames, scope: FileScope) -> KernelText:
    """One program for each block of results."""
    return windows.functions(plan, names, scope)
