"""Computing a producer's value where a consumer loads it, at whatever place the consumer asks for.

The consumer's index into the buffer is taken apart into one affine expression per axis of the producer (the digits of
a mixed-radix number), and the producer's body is repeated with its axes replaced by them. This holds for slices,
broadcasts, flips, gathers and transposes alike; a reduction is never repeated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from longhand.lower.ir import (
    AxisSize,
    Buffer,
    Constant,
    Index,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    Scalar,
    Store,
    Value,
    domains,
)
from longhand.schedule.bodies import rewrite, sizes_of, split_axes, stores, substitute, without_stores
from longhand.schedule.fusion.delinearize import Chain, delinearize, delinearized_load, split_for
from longhand.schedule.fusion.store_to_load import forward_store
from longhand.schedule.fusion.whole_pieces import ask_pieces
from longhand.schedule.simplification import simplify_body
from longhand.schedule.sizes import product


def inline(producer: Nest, buffer: str, consumer: Nest, buffers: Mapping[str, Buffer]) -> Nest | str:
    """The consumer with every load of `buffer` replaced by what the producer stores there, or what hinders it."""
    writing = [store for _, store in stores(producer) if store.buffer == buffer]
    if len(writing) != 1 or writing[0].mask is not None or writing[0].adds:
        return f"{buffer} is not written by one plain store"
    chain = delinearize(writing[0].index, sizes_of(producer))
    if chain is None:
        return f"{buffer} is written in parts"
    part = Nest(producer.axes, simplify_body(without_stores(producer, lambda s: s.buffer != buffer).body))
    if any(isinstance(value, Reduce) for value in part.body):
        return "a reduction is never computed twice"
    if any(isinstance(value, IndexExpression) and value.index.values for value in part.body):
        return "a position depends on data"
    split = _split(consumer, buffer, chain)
    body: list[Value] = []
    positions: list[int] = []
    for value in split.body:
        moved = rewrite(value, positions)
        if isinstance(moved, Load) and moved.buffer == buffer:
            indices = delinearized_load(moved, chain, sizes_of(split), body)
            if indices is None:
                return f"the place at which {buffer} is read is not an element of its loops"
            position = _repeat(part, indices, moved.mask, body)
            read = body[position]
            if isinstance(read, Load) and moved.mask is not None and _stands_for(read, moved, part):
                body[position] = dataclasses.replace(
                    read, other=moved.other, name=moved.name or read.name, origin=moved.origin
                )
                positions.append(position)
                continue
            if isinstance(read, Pointwise) and read.name is None and moved.name is not None:
                body[position] = dataclasses.replace(read, name=moved.name)
                moved = dataclasses.replace(moved, name=None)
            positions.append(forward_store(body, position, moved, buffers[buffer]))
        else:
            positions.append(len(body))
            body.append(moved)
    return Nest(split.axes, tuple(body))


def _stands_for(read: Load, asked: Load, part: Nest) -> bool:
    """Whether the producer only copies, so that its load under the consumer's mask can yield what is asked for."""
    is_copy = sum(not isinstance(value, Store) for value in part.body) == 1
    return is_copy and read.mask == asked.mask and read.dtype is asked.dtype


def _split(consumer: Nest, buffer: str, chain: Chain) -> Nest:
    """The consumer with its axes split where one of them runs over several axes of the producer.

    One that a mask keeps to a part of itself, such as the half of a join that is read, may stay inside one axis.
    """
    body, sizes = list(consumer.body), sizes_of(consumer)
    for value in consumer.body:
        if isinstance(value, Load) and value.buffer == buffer:
            if value.mask is not None and delinearized_load(value, chain, sizes, body) is not None:
                continue
            pieces = split_for(value.index, chain, consumer)
            if pieces:
                return _split(ask_pieces(split_axes(consumer, pieces), pieces), buffer, chain)
    return consumer


def _repeat(part: Nest, at: Mapping[str, Index], mask: int | None, body: list[Value]) -> int:
    """Appends the part's values at another place; the position of the one that it would have stored."""
    positions: dict[int, int] = {}
    sizes = sizes_of(part)
    for number, value in enumerate(part.body):
        if isinstance(value, Store):
            return positions[value.value]
        moved = rewrite(value, positions, lambda index: substitute(index, at))
        if isinstance(moved, AxisSize):
            total = product(sizes[axis] for axis in moved.axes)
            moved = Scalar(total, moved.dtype, moved.name, moved.origin)
        elif isinstance(moved, IndexExpression) and moved.index.values:
            positions[number] = _append_position(moved, body)
            continue
        elif isinstance(moved, Load) and mask is not None and _varies_with(moved, mask, body):
            other = moved.other if moved.mask is not None else _zero(moved.dtype)
            moved = dataclasses.replace(moved, mask=_both(moved.mask, mask, body), other=other)
        positions[number] = len(body)
        body.append(moved)
    raise AssertionError("a part ends with its store")


def _varies_with(load: Load, mask: int, body: list[Value]) -> bool:
    """Whether a load could leave its buffer where the mask is false: not if the two have no axis in common, for then
    it reads nothing there that it does not read where the mask is true."""
    spans = domains((*body, load))
    return bool(spans[-1] & spans[mask]) or not spans[mask]


def _append_position(position: IndexExpression, body: list[Value]) -> int:
    """A place that depends on data, as arithmetic."""
    affine = Index(position.index.offset, position.index.axes)
    body.append(dataclasses.replace(position, index=affine, dtype=torch.int64))
    total = len(body) - 1
    for value, coefficient in position.index.values:
        body.append(
            Constant(coefficient, torch.int64)
            if isinstance(coefficient, int)
            else Scalar(coefficient, torch.int64)
        )
        body.append(Pointwise(PointwiseOp.MUL, (value, len(body) - 1), torch.int64, origin=position.origin))
        body.append(Pointwise(PointwiseOp.ADD, (total, len(body) - 1), torch.int64, origin=position.origin))
        total = len(body) - 1
    if position.dtype is not torch.int64:
        body.append(Pointwise(PointwiseOp.CAST, (total,), position.dtype, origin=position.origin))
    return len(body) - 1


def _zero(dtype: torch.dtype) -> float | int | bool:
    """What a load yields where it is masked out and nothing uses the result."""
    if dtype is torch.bool:
        return False
    return 0.0 if dtype.is_floating_point else 0


def _both(left: int | None, right: int, body: list[Value]) -> int:
    if left is None:
        return right
    body.append(Pointwise(PointwiseOp.LOGICAL_AND, (left, right), torch.bool))
    return len(body) - 1
