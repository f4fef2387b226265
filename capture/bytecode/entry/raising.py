"""Calls of a graph that may raise, depending on data.

Capture runs a graph as a whole. Where one of its calls raises, the user's own code may handle that: CPython runs the
call again, from its start, as long as the graph wrote into no input that cannot be put back. So what may raise inside
a ``try`` and what writes into a large input are never in one graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.entry.call_effects import name_of
from longhand.capture.bytecode.entry.unraised import refuse_unraised
from longhand.capture.bytecode.entry.written_inputs import can_be_kept
from longhand.capture.bytecode.frames.frame import Frame
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import BoundMethod, New, Obj
from longhand.capture.bytecode.versions.opcodes import HANDLER_ENDS, Opcode

__all__ = ["check_order", "may_be_caught", "refuse_order"]

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
        if rows[row.target].name != Opcode.PUSH_EXC_INFO:
            return False  # CPython's own: of a generator, of an inlined comprehension
        if rows[row.target + 1].name != Opcode.WITH_EXCEPT_START:
            return True
        if not _is_of_torch(frame, row.depth):
            return True
        at = row.target
    return False


def check_order(trace: Trace, target: Any, fakes: list[Any]) -> None:
    """Refuses a call that would bring a write that stays, and what may raise inside a try, into one graph.

    Raises:
        Unsupported: So that CPython runs this call.
    """
    refuse_unraised(trace, target, fakes)
    if _may_raise(target, fakes):
        if trace.assumed and any(isinstance(fake, torch.Tensor) and fake.is_cuda for fake in fakes):
            reason = f"{name_of(target)} may fail on the GPU where a check of values before it does"
            raise Unsupported(reason, "Check it once, outside of what is compiled.")
        if any(_handles(frame) for frame in trace.stack):
            trace.may_raise = trace.may_raise or f"{name_of(target)} may raise, in a try block"
    refuse_order(trace)


def refuse_order(trace: Trace) -> None:
    """Refuses what may have to run again in CPython, and a write into an input that would stay, in one graph.

    Raises:
        Unsupported: So that CPython runs this step.
    """
    if trace.may_raise and not can_be_kept(tensor.fake for tensor in trace.written()):
        reason = f"{trace.may_raise}, and an input is written to"
        raise Unsupported(reason, "Write into the input before it, or make a new tensor.")


def may_be_caught(frame: Frame) -> bool:
    """Whether an exception at a frame's instruction may end in the frame: in an ``except`` block, or a manager's exit.

    A ``finally`` block ends in the exception again, and so do the managers of torch.
    """
    rows, at = frame.decoded.instructions, frame.start
    seen: set[int] = set()
    while (row := frame.decoded.handler_of(at)) is not None and row.target not in seen:
        seen.add(row.target)
        at = row.target
        if rows[at].name != Opcode.PUSH_EXC_INFO:  # CPython's own
            continue
        if rows[at + 1].name == Opcode.WITH_EXCEPT_START:
            if not _is_of_torch(frame, row.depth):
                return True
            continue
        ends = (rows[index].name for index in range(at + 1, len(rows)) if rows[index].name in HANDLER_ENDS)
        if next(ends, "") != Opcode.RERAISE:
            return True
    return False


def _is_of_torch(frame: Frame, depth: int) -> bool:
    """Whether torch made the context manager whose exit lies at a depth of the stack."""
    leave = frame.stack[depth - 1] if 0 < depth <= len(frame.stack) else None
    owner = leave.owner if isinstance(leave, BoundMethod) else None
    kind = type(owner.value) if isinstance(owner, Obj) else owner.kind if isinstance(owner, New) else None
    return kind is not None and kind.__module__.startswith("torch.")
