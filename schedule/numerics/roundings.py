"""Roundings to 16-bit floats that a decision is made of: what memory would hold, wherever fusion hands it over.

Bodies compute 16-bit floats in float32 (kept precision), so what one kernel hands over in a register is not rounded.
That moves a result by less than eager's own rounding does, unless something is decided by it: ``x.half() == x`` is
true of every element then, and in eager of few. So what a decision is made of is rounded op by op, as in eager, and
nothing else: before fusion each load of such a value, and after it the roundings go that change nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import fx

from longhand.lower.ir import (
    Buffer,
    BufferKind,
    Constant,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Step,
    Store,
    Value,
    arguments,
    compute_dtype,
)
from longhand.schedule.bodies import rewrite
from longhand.schedule.simplification import simplify_nest

aten = torch.ops.aten
Op = PointwiseOp

# What jumps somewhere.
_DECIDES = frozenset(
    {
        *(Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.ISNAN, Op.ISINF, Op.SIGN, Op.SIGNBIT, Op.NEXTAFTER),
        *(Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND, Op.FLOOR_DIV, Op.TRUNC_DIV, Op.REMAINDER, Op.FMOD),
    }
)
_ORDERS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_PICKS = frozenset({ReduceOp.ARGMAX, ReduceOp.ARGMIN})
# Functions in pieces that meet: their lowerings compare, but where they cross from one to the other nothing jumps.
_CONTINUOUS = frozenset(
    {
        *(aten.leaky_relu, aten.prelu, aten._prelu_kernel, aten.elu, aten.celu, aten.selu, aten.softshrink),
        *(aten.smooth_l1_loss, aten.huber_loss, aten.lerp, aten.softplus, aten.logaddexp, aten.logaddexp2),
        *(aten.sinc, aten.logsumexp),
    }
)
# What yields one of its arguments, or one with another sign.
_CHOOSES = frozenset(
    {PointwiseOp.NEG, PointwiseOp.ABS, PointwiseOp.MAXIMUM, PointwiseOp.MINIMUM, PointwiseOp.WHERE}
)


def round_decisions(
    steps: Sequence[Step], buffers: Mapping[str, Buffer], nodes: Mapping[str, fx.Node]
) -> tuple[Step, ...]:
    """The steps with a rounding after each load of a 16-bit intermediate that something is decided by.

    Args:
        steps: Of the program, in order.
        buffers: Of the program.
        nodes: Of the graph, by name.
    """
    if not any(_is_rounded(buffer) for buffer in buffers.values()):
        return tuple(steps)
    decides: set[str] = set()  # buffers that a later decision is made of
    rounded_steps: list[Step] = []
    for step in reversed(steps):
        if not isinstance(step, Nest):
            rounded_steps.append(step)
            continue
        used = _decided_by(step.body, decides, nodes)
        loads = {position: value for position, value in used if isinstance(value, Load)}
        decides |= {load.buffer for load in loads.values()}
        at = {p: buffers[load.buffer].dtype for p, load in loads.items() if _is_rounded(buffers[load.buffer])}
        rounded_steps.append(Nest(step.axes, _with_roundings(step.body, at)) if at else step)
    return tuple(reversed(rounded_steps))


def _is_rounded(buffer: Buffer) -> bool:
    """Whether elements are handed over in more bits than memory would have: what the caller has is in memory."""
    dtype = buffer.dtype
    is_narrow = dtype.is_floating_point and compute_dtype(dtype) is not dtype
    return is_narrow and buffer.kind is BufferKind.INTERMEDIATE


def _decided_by(
    body: Sequence[Value], decides: set[str], nodes: Mapping[str, fx.Node]
) -> Iterator[tuple[int, Value]]:
    """The values of a body that a decision is made of, in it or in a nest after it."""
    used: set[int] = set()
    for position in range(len(body) - 1, -1, -1):
        value = body[position]
        is_used = value.buffer in decides if isinstance(value, Store) else position in used
        if is_used:
            used.update(arguments(value))
            yield position, value
        elif _jumps(value, body, nodes):
            used.update(arguments(value))


def _jumps(value: Value, body: Sequence[Value], nodes: Mapping[str, fx.Node]) -> bool:
    """Whether a small change of a float among its arguments changes a value by more."""
    if isinstance(value, Reduce):
        return value.op in _PICKS
    if not isinstance(value, Pointwise):
        return False
    node = nodes.get(value.origin)
    if node is not None and getattr(node.target, "overloadpacket", None) in _CONTINUOUS:
        return False
    given = [body[arg] for arg in value.args]
    is_of_floats = any(not isinstance(one, Store) and one.dtype.is_floating_point for one in given)
    if value.op is Op.CAST:
        return is_of_floats and not value.dtype.is_floating_point
    return is_of_floats and (
        value.op in _DECIDES or (value.op is Op.POW and isinstance(given[1], Load | Pointwise))
    )


def _with_roundings(body: Sequence[Value], at: Mapping[int, torch.dtype]) -> tuple[Value, ...]:
    """The body with what is loaded at some places rounded for all that reads it."""
    made: list[Value] = []
    positions: list[int] = []
    for position, value in enumerate(body):
        moved = rewrite(value, positions)
        made.append(moved)
        if position in at:
            assert isinstance(moved, Load)
            maker = moved.buffer  # not what reads it: there it is no operation of its own
            made.append(Pointwise(Op.CAST, (len(made) - 1,), moved.dtype, at[position], origin=maker))
        positions.append(len(made) - 1)
    return tuple(made)


def drop_roundings(steps: Sequence[Step], buffers: Mapping[str, Buffer]) -> tuple[Step, ...]:
    """The steps without roundings that change nothing: where fusion handed nothing over, memory has rounded it."""
    return tuple(_without(step, buffers) if isinstance(step, Nest) else step for step in steps)


def _without(nest: Nest, buffers: Mapping[str, Buffer]) -> Nest:
    if not any(_rounds(value) for value in nest.body):
        return nest
    for_signs = _for_signs(nest.body)
    body: list[Value] = []
    positions: list[int] = []
    fits: list[torch.dtype | None] = []  # the 16-bit type that holds each value of the new body
    for position, value in enumerate(nest.body):
        moved = rewrite(value, positions)
        rounding = moved if isinstance(moved, Pointwise) and _rounds(moved) else None
        if rounding and (position in for_signs or fits[rounding.args[0]] is rounding.narrow):
            positions.append(rounding.args[0])
            continue
        positions.append(len(body))
        fits.append(_fits(moved, body, fits, buffers))
        body.append(moved)
    return nest if len(body) == len(nest.body) else simplify_nest(dataclasses.replace(nest, body=tuple(body)))


def _for_signs(body: Sequence[Value]) -> frozenset[int]:
    """The roundings to bfloat16 of which nothing is asked but on which side of zero their result is.

    It has float32's exponents: what is not zero stays so, but for numbers under 2**-134.
    """
    users: dict[int, list[Value]] = {}
    for value in body:
        for argument in arguments(value):
            users.setdefault(argument, []).append(value)
    return frozenset(
        position
        for position, value in enumerate(body)
        if _rounds(value)
        and isinstance(value, Pointwise)
        and value.narrow is torch.bfloat16
        and all(_asks_for_sign(user, body) for user in users.get(position, ()))
    )


def _asks_for_sign(value: Value, body: Sequence[Value]) -> bool:
    if not isinstance(value, Pointwise) or value.op not in _ORDERS:
        return False
    return any(isinstance(one := body[arg], Constant) and one.value == 0 for arg in value.args)


def _rounds(value: Value) -> bool:
    return isinstance(value, Pointwise) and value.narrow is not None and value.narrow.is_floating_point


def _fits(
    value: Value, body: Sequence[Value], fits: Sequence[torch.dtype | None], buffers: Mapping[str, Buffer]
) -> torch.dtype | None:
    """The 16-bit type of which a value is a number, if it is known to be one."""
    if isinstance(value, Load):
        dtype = buffers[value.buffer].dtype
        return dtype if value.dtype is torch.float32 and _holds(dtype, value.other) else None
    if not isinstance(value, Pointwise) or value.dtype is not torch.float32:
        return None
    if _rounds(value):
        return value.narrow
    if value.op not in _CHOOSES:
        return None
    chosen = value.args[1:] if value.op is PointwiseOp.WHERE else value.args
    types = {fits[arg] for arg in chosen if not isinstance(body[arg], Constant)}
    common = types.pop() if len(types) == 1 else None
    numbers = [one.value for one in (body[arg] for arg in chosen) if isinstance(one, Constant)]
    return common if common is not None and all(_holds(common, number) for number in numbers) else None


def _holds(dtype: torch.dtype, number: float) -> bool:
    """Whether a number is one of the type, as NaN and infinities are."""
    return number != number or torch.tensor(number, dtype=dtype).double().item() == number
