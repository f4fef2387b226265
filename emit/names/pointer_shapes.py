"""The shapes of what a kernel is given, in words, for the comments on its pointers: ``(n_rows, n_cols)``.

A unit's runtime compares tensors with these comments (templates/runtime): `(n_rows, n_cols)`, `the first (n_rows,
n_cols)`, `(n_rows, n_cols) in memory` and `one element` are what it reads; of other words it takes nothing.
"""

from __future__ import annotations

from longhand.emit.names.unit_names import KernelNames
from longhand.schedule.plan import KernelPlan, Pointer, Region, tensor_shape

_ELEMENT = {Region.WHOLE: "one element", Region.FIRST: "the first element"}
_SHAPE = {
    Region.WHOLE: "{}",
    Region.IN_MEMORY: "{} in memory",
    Region.FIRST: "the first {}",
    Region.STRIDED: "{} by strides",
    Region.PART: "a part of {}",
}


def shape_words(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> tuple[str, ...] | None:
    """A word for each dimension; none for a single element, None where no shape says what is accessed."""
    shape = tensor_shape(plan, pointer)
    if shape is None:
        return None
    return tuple(names.scalars[dim] if isinstance(dim, int) else names.axes[dim].size for dim in shape)


def shape_comment(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> str | None:
    """``(n_rows, n_cols)``, ``the first (n_rows, n_cols)``, ``one element``; None where no shape says it."""
    words = shape_words(plan, names, pointer)
    if words is None:
        return None
    if not words:
        return _ELEMENT.get(pointer.region, "an element")
    return _SHAPE[pointer.region].format(f"({', '.join(words)}{',' if len(words) == 1 else ''})")
