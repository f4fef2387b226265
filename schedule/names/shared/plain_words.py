"""What a kernel calls a tensor that its callers call differently: what the kernel itself does with it.

``table`` is looked up in, ``places`` says where, ``mask`` decides, ``x`` and ``y`` are read, ``out`` is written.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from longhand.lower.ir import Load, Pointwise, PointwiseOp, Reduce, Store, Value, arguments
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.plan import Access, KernelPlan, Pointer

_READ = ("x", "y", "z")
_D_READ = ("d_out", "d_other_out")
_VECTORS = {PointwiseOp.MUL: "factor", PointwiseOp.ADD: "shift", PointwiseOp.SUB: "shift"}


def plain_words(kernel: KernelPlan, pointer: Pointer, is_gradient: bool) -> Iterator[str]:
    """The words, best first.

    Args:
        kernel: The kernel.
        pointer: One of its pointers.
        is_gradient: Whether what every caller passes is the gradient of something.
    """
    loads = [
        (position, value)
        for position, value in enumerate(kernel.body)
        if isinstance(value, Load) and value.buffer == pointer.name
    ]
    if pointer.access is not Access.READ:
        yield from _written(kernel, pointer, is_gradient)
    elif any(load.index.values for _, load in loads):
        yield "table"
    elif any(_says_where(position, kernel.body) for position, _ in loads):
        yield "places"
    elif pointer.dtype is torch.bool:
        yield "mask"
    elif is_gradient:
        yield from _D_READ
    else:
        yield from (word for position, _ in loads if (word := _vector_word(kernel, pointer, position)))
        yield from _READ


def _written(kernel: KernelPlan, pointer: Pointer, is_gradient: bool) -> Iterator[str]:
    stored = [value for value in kernel.body if isinstance(value, Store) and value.buffer == pointer.name]
    if pointer.access is Access.READ_WRITE:
        yield "x"
    if len({value.buffer for value in kernel.body if isinstance(value, Store)}) > 1:
        yield from (word for store in stored if (word := _made(kernel.body, store)))
    yield from ("d_x", "d_y") if is_gradient else ("out", "other_out")


def _made(body: tuple[Value, ...], store: Store) -> str:
    """What one of several results is: a value's role, ``rstd``, or what adds it up, ``sum``."""
    value = body[store.value]
    role = getattr(value, "name", None)
    if role:
        return str(role)
    is_sum = isinstance(value, Pointwise) and value.op is PointwiseOp.ADD
    is_read = any(store.value in arguments(other) for other in body if not isinstance(other, Store))
    return f"{noun_of(value)}s" if isinstance(value, Reduce) else "total" if is_sum and is_read else ""


def _vector_word(kernel: KernelPlan, pointer: Pointer, position: int) -> str:
    """``factor`` or ``shift`` of a tensor that is the same for every row; empty for any other."""
    rows = {axis.name for axis in kernel.rows}
    if not pointer.dims or not rows or rows & {*pointer.dims}:
        return ""
    users = (value for value in kernel.body if isinstance(value, Pointwise) and position in arguments(value))
    return next((_VECTORS[user.op] for user in users if user.op in _VECTORS), "")


def _says_where(position: int, body: tuple[Value, ...]) -> bool:
    """Whether a value becomes a place in a tensor."""
    reached = {position}
    for at, value in enumerate(body):
        if isinstance(value, Pointwise) and not value.dtype.is_floating_point and reached & {*value.args}:
            reached.add(at)
        if isinstance(value, Load) and reached & {where for where, _ in value.index.values}:
            return True
    return False
