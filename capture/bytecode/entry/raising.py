"""Calls of a graph that may raise, depending on data.

Capture runs a graph as a whole. Where one of its calls raises, the user's own code may handle that: CPython runs the
call again, from its start, as long as the graph wrote into no input. So what may raise inside a ``try`` and what
writes into an input are never in one graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.entry.call_effects import name_of
from longhand.capture.bytecode.frames.frame import Frame
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Method, New, Obj

_MAY_RAISE = re.compile(
    r"embedding(_bag)?|index_\w+|gather|scatter\w*|take(_along_dim)?|put_?|one_hot|cross_entropy|nll_loss\w*"
    r"|multi\w*_loss|ctc_loss|binary_cross_entropy|multinomial|bernoulli_?|normal_?|poisson|binomial|bincount|histc"
    r"|repeat_interleave|cholesky\w*|inverse|inv\w*|solve\w*|lstsq|l[du]l?_\w+|eig\w*|svd\w*|qr|det|slogdet|logdet"
    r"|matrix_power|pinv|linalg_\w+|(nan)?quantile|_assert_\w+|masked_scatter_?"
)
_BY_TENSOR = frozenset(["getitem", "setitem", "__getitem__", "__setitem__"])
_DIVISIONS = frozenset(
    ["floordiv", "floor_divide", "floor_divide_", "remainder", "remainder_", "mod", "fmod", "div"]
)


def _may_raise(target: Any, fakes: Iterable[Any]) -> bool:
    name = name_of(target)
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket) or _MAY_RAISE.fullmatch(name):
        return True
    if name in _BY_TENSOR:
        return any(isinstance(part, torch.Tensor) for fake in list(fakes)[1:2] for part in _parts(fake))
    if name in _DIVISIONS:
        return any(isinstance(fake, torch.Tensor) and not fake.is_floating_point() for fake in fakes)
    return False


def _parts(index: Any) -> tuple[Any, ...]:
    return tuple(index) if isinstance(index, tuple | list) else (index,)


def _handles(frame: Frame) -> bool:
    """Whether an exception at a frame's instruction meets code of the user's own."""
    rows, at = frame.decoded.instructions, frame.start
    while (row := frame.decoded.handler_of(at)) is not None:
        if (
            rows[row.target].name != "PUSH_EXC_INFO"
        ):  # CPython's own: of a generator, of an inlined comprehension
            return False
        if rows[row.target + 1].name != "WITH_EXCEPT_START":
            return True
        leave = frame.stack[row.depth - 1] if 0 < row.depth <= len(frame.stack) else None
        owner = leave.owner if isinstance(leave, Method) else None
        kind = type(owner.value) if isinstance(owner, Obj) else owner.kind if isinstance(owner, New) else None
        if kind is None or not kind.__module__.startswith("torch."):
            return True
        at = row.target
    return False


def check_order(trace: Trace, target: Any, fakes: list[Any]) -> None:
    """Refuses a call that would bring a write into an input, and what may raise inside a try, into one graph.

    Raises:
        Unsupported: So that CPython runs this call.
    """
    if _may_raise(target, fakes) and any(_handles(frame) for frame in trace.stack):
        trace.may_raise = trace.may_raise or name_of(target)
    if trace.may_raise and trace.written():
        reason = f"{trace.may_raise} may raise, in a try block, and an input is written to"
        raise Unsupported(reason, "Write into the input before the try block, or make a new tensor.")
