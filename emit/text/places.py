"""What is said of a kernel's tensor that no shape says.

``rows of x_stride elements``, ``read where index says``, ``read along batch, row and col, in part``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from longhand.emit.text.kernel_head import room_beside
from longhand.schedule.named_plan import KernelNames
from longhand.schedule.names.words import listed
from longhand.schedule.plan import (
    Access,
    KernelPlan,
    Pointer,
    is_accessed_in_part,
    row_stride,
    told_by_data,
    walked_along,
)


def places_comment(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> str:
    """Where its elements lie, or that data or several conditions say that."""
    stride = row_stride(plan, pointer)
    if stride is not None:
        return f"rows of {names.ints[stride]} elements"
    done = "read" if pointer.access is Access.READ else "written"
    data = told_by_data(plan, pointer)
    words = {one.name: names.pointers[one.name] for one in plan.pointers if one.name in names.pointers}
    if data in words:
        return f"{done} where {words[data]} says"
    along = walked_along(plan, pointer)
    told = f"{done} along {listed(names.axes[axis].index for axis in along)}"
    told += ", in part" * is_accessed_in_part(plan, pointer)
    is_short = len(told) <= room_beside(names, pointer)
    return told if along and is_short else f"{done} at computed places"


def lines_above(aliases: Sequence[str], width: int) -> tuple[str, ...]:
    """The lines above a pointer that say what tensors it may be, where that does not fit behind it.

    Args:
        aliases: Their words; none: nothing is said.
        width: How many characters a line has.
    """
    said = f"may be {' or '.join(aliases)}:"
    return tuple(textwrap.wrap(said, width, break_long_words=False)) if aliases else ()
