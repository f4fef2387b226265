"""Handing a value over: what a load would have yielded of what a store would have put into memory."""

from __future__ import annotations

import torch

from longhand.lower.ir import Buffer, Constant, Load, Pointwise, PointwiseOp, Store, Value

_NARROW = (torch.int8, torch.uint8, torch.int16)


def forward_store(body: list[Value], position: int, load: Load, buffer: Buffer) -> int:
    """The position of the value that `load` yields when `buffer` holds the value at `position`.

    Appends to `body` what is needed: a masked load chooses between the value and its `other`. Rounding to 16-bit floats
    is left out (kept precision); narrow integers wrap as memory would have wrapped them.
    """
    value = body[position]
    assert not isinstance(value, Store)
    narrow = buffer.dtype if buffer.dtype in _NARROW and not _fits(value, buffer.dtype) else None
    if value.dtype is not load.dtype or narrow is not None:
        body.append(Pointwise(PointwiseOp.CAST, (position,), load.dtype, narrow, origin=value.origin))
        position = len(body) - 1
    if load.mask is None:
        return position
    body.append(_other(load))
    args = (load.mask, position, len(body) - 1)
    body.append(Pointwise(PointwiseOp.WHERE, args, load.dtype, name=load.name, origin=load.origin))
    return len(body) - 1


def _other(load: Load) -> Value:
    """The constant that masked-out elements of a load yield."""
    if load.dtype is torch.bool:
        return Constant(bool(load.other), load.dtype, origin=load.origin)
    number = float(load.other) if load.dtype.is_floating_point else int(load.other)
    return Constant(number, load.dtype, origin=load.origin)


def _fits(value: Value, dtype: torch.dtype) -> bool:
    """Whether a widened integer is known to be in the range of its storage dtype."""
    return isinstance(value, Pointwise) and value.narrow is dtype
