"""What a kernel calls a tensor that its callers call differently: what the kernel itself does with it.

``table`` is looked up in, ``places`` says where, ``mask`` decides, ``x`` and ``y`` are read, ``out`` is written; of
several that are written each is what it is made of: ``residual`` and ``normed``. What comes with its gradient is
``out`` where that is read, and ``x`` where it is written.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from longhand.capture.graph import Role
from longhand.lower.ir import Load, Pointwise, PointwiseOp, Reduce, Store, Value, arguments
from longhand.schedule.names.operation_names import noun_of
from longhand.schedule.names.shared.callers import Callers
from longhand.schedule.names.words import GradientWord
from longhand.schedule.plan import Access, KernelPlan, Pointer

_READ = ("x", "y", "z", "u", "v")
_D_READ = ("d_out", "d_output", "d_result")
_WRITTEN = ("out", "output", "result")
_VECTORS = {PointwiseOp.MUL: "factor", PointwiseOp.ADD: "shift", PointwiseOp.SUB: "shift"}
_NORMED = "normed"  # then


def plain_names_in(
    kernel: KernelPlan, pointer: Pointer, place: int, callers: Callers, gradient: Pointer | None = None
) -> Iterator[str]:
    """The words for what the calls of a kernel pass, best first.

    ``d_x`` is the gradient of the kernel's ``x``: what is made without any gradient is ``out``, though it may be one in
    some calls, and ``d_bias`` what is that in all.

    Args:
        kernel: The kernel.
        pointer: One of its pointers.
        place: Which argument it is.
        callers: The kernel's calls.
        gradient: The pointer to the gradient of what they all pass.
    """
    passed = [one for one in kernel.pointers if not one.scratch]
    is_written, is_of_another = pointer.access is Access.WRITE, callers.value_of_gradient(place) is None
    is_lone = is_written and callers.are_derivatives
    is_lone = is_lone and sum(one.access is not Access.READ for one in passed) == 1
    is_gradient = is_lone or callers.are_gradients(place)
    if is_written and is_gradient and is_of_another:
        yield from [GradientWord(leaf)] if (leaf := callers.trained(place)) else []
        read = (at for at, one in enumerate(passed) if one.access is Access.READ)
        is_gradient = any(callers.are_gradients(at) for at in read)
    yield from plain_names(kernel, pointer, is_gradient, gradient)


def plain_names(
    kernel: KernelPlan, pointer: Pointer, is_gradient: bool, gradient: Pointer | None = None
) -> Iterator[str]:
    """The words, best first.

    Args:
        kernel: The kernel.
        pointer: One of its pointers.
        is_gradient: Whether what every caller passes is the gradient of something.
        gradient: The pointer to the gradient of what they all pass.
    """
    if gradient is not None and pointer.access is Access.READ:
        yield "out" if gradient.access is Access.READ else "x"
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
        yield from (
            f"d_{_NORMED}" for position, _ in loads if _makes(kernel.body, position, Role.D_NORMALIZED)
        )
        yield from _D_READ
    else:
        yield from (word for position, _ in loads if (word := _vector_word(kernel, pointer, position)))
        yield from _READ


def _written(kernel: KernelPlan, pointer: Pointer, is_gradient: bool) -> Iterator[str]:
    stored = [value for value in kernel.body if isinstance(value, Store) and value.buffer == pointer.name]
    if pointer.access is Access.READ_WRITE:
        yield "x"
    if len({value.buffer for value in kernel.body if isinstance(value, Store)}) > 1:
        yield from (word for store in stored for word in _made(kernel, store))
    yield from ("d_x", "d_y") if is_gradient else _WRITTEN


def _made(kernel: KernelPlan, store: Store) -> Iterator[str]:
    """What one of several results is: a value's role, ``rstd``, what adds it up, ``sums``, or what it is made of."""
    body, value = kernel.body, kernel.body[store.value]
    role = getattr(value, "name", None)
    if role:
        yield str(role)
    if isinstance(value, Reduce):
        yield f"{noun_of(value)}s"
    is_read = any(store.value in arguments(other) for other in body if not isinstance(other, Store))
    if isinstance(value, Pointwise) and value.op is PointwiseOp.ADD and is_read:
        # As the value inside of the kernel is called.
        yield "residual" if all(isinstance(body[place], Load) for place in value.args) else "total"
    if _is_normed(kernel, store.value):
        yield _NORMED


def _is_normed(kernel: KernelPlan, position: int) -> bool:
    """Whether a value is normalized, and then at most scaled and shifted by vectors."""
    value = kernel.body[position]
    if getattr(value, "name", None) is Role.NORMALIZED:
        return True
    if not isinstance(value, Pointwise) or value.op not in (PointwiseOp.MUL, PointwiseOp.ADD):
        return False
    of_norm = [place for place in value.args if _is_normed(kernel, place)]
    return len(of_norm) == 1 and all(_is_vector(kernel, place) for place in value.args if place != of_norm[0])


def _is_vector(kernel: KernelPlan, position: int) -> bool:
    """Whether a value is loaded and the same for every row."""
    value = kernel.body[position]
    dims = {pointer.name: pointer.dims for pointer in kernel.pointers}
    rows = {axis.name for axis in kernel.rows}
    return isinstance(value, Load) and rows.isdisjoint(dims.get(value.buffer) or ())


def _makes(body: tuple[Value, ...], position: int, role: str) -> bool:
    """Whether a value is what one of a role is made of."""
    return any(getattr(user, "name", None) == role and position in arguments(user) for user in body)


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
