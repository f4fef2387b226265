"""The comment on a kernel's tensor: its shape in words, ``(n_rows, n_cols)``, and how much of the tensor that is.

A tensor of which the kernel takes a part is not as large as that: the comment says where the part lies.
"""

from __future__ import annotations

from longhand.schedule.named_plan import KernelNames
from longhand.schedule.plan import KernelPlan, Pointer, Region, part_taken, row_stride, tensor_shape

_ELEMENT = {Region.WHOLE: "one element", Region.FIRST: "the first element"}
_SHAPE = {Region.WHOLE: "{}", Region.IN_MEMORY: "{} in memory", Region.FIRST: "the first {}"}


def shape_names(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> tuple[str, ...] | None:
    """A word for each dimension; none for a single element, None where no shape says what is accessed."""
    shape = tensor_shape(plan, pointer)
    if shape is None:
        return None
    return tuple(names.scalars[dim] if isinstance(dim, int) else names.axes[dim].size for dim in shape)


def shape_comment(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> str | None:
    """``(n_rows, n_cols)``, ``the first (n_rows, n_cols)``, ``one element``; None where no shape says it."""
    words = shape_names(plan, names, pointer)
    if words is None:
        return None
    if not words:
        return _ELEMENT.get(pointer.region, "an element")
    sizes = f"({', '.join(words)}{',' if len(words) == 1 else ''})"
    if pointer.region in _SHAPE:
        return _SHAPE[pointer.region].format(sizes)
    return _part_comment(plan, names, pointer, sizes)


def _part_comment(plan: KernelPlan, names: KernelNames, pointer: Pointer, sizes: str) -> str:
    """``(n_rows, n_cols), rows x_stride apart``: where the kernel's elements lie among the tensor's."""
    part = part_taken(plan, pointer)
    stride = row_stride(plan, pointer)
    text = f"{part.n_places} parts, {sizes} each" if part.n_places > 1 else sizes
    text = f"at most {text}" if part.is_conditional else text
    if stride is not None:
        return f"{text}, rows {names.ints[stride]} apart"
    begin = None if part.is_conditional else part.begins_at
    if part.is_strided:
        text += " by strides"
    elif begin is None and not part.is_conditional:
        text += " of a tensor that may be larger"
    return text if begin is None else f"{text}, from {names.ints[begin]} on"


def is_whole_shape(plan: KernelPlan, names: KernelNames, pointer: Pointer) -> bool:
    """Whether `shape_comment` begins with sizes: nothing but them says what is accessed."""
    return bool(shape_names(plan, names, pointer)) and pointer.region in (Region.WHOLE, Region.IN_MEMORY)
