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


def with_aliases(comment: str, aliases: Sequence[str], room: int, width: int) -> tuple[str, tuple[str, ...]]:
    """The comment behind a pointer with the tensors that it may be; where it is too long then, these as lines above.

    Args:
        comment: What is said of it otherwise.
        aliases: What else it may be.
        room: How many characters there are behind it.
        width: How many a line above has.
    """
    if not aliases:
        return comment, ()
    said = f"may be {' or '.join(aliases)}"
    if len(comment) + len("; ") + len(said) <= room:
        return f"{comment}; {said}", ()
    return comment, tuple(textwrap.wrap(f"{said}:", width, break_long_words=False))
