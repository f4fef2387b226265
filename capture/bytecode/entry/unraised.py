"""What eager raises for a tensor's values, and a kernel does not: a position out of range is NaN there.

Where the code has an ``except`` block for that, the block is to run: CPython makes such a call.
"""

from __future__ import annotations

import builtins
import contextlib
import re
from collections.abc import Iterable
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import LeftWithCalls, Unsupported
from longhand.capture.bytecode.entry.call_effects import name_of
from longhand.capture.bytecode.frames.frame import Frame
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import BoundMethod, New, Obj
from longhand.capture.bytecode.versions.opcodes import HANDLER_ENDS, Opcode

__all__ = ["refuse_unraised"]

_HINT = "Look at the values before the call, or take it out of the try block."
# By positions, by classes, and by what must be a probability: what eager raises.
_RAISED = (
    (re.compile(r"embedding|index_select|take|(__)?getitem(__)?|cross_entropy|nll_loss\w*"), IndexError),
    (
        re.compile(r"gather|take_along_dim|multi\w*_loss|binary_cross_entropy|bernoulli_?|(nan)?quantile"),
        RuntimeError,
    ),
)
_READS = re.compile(r"embedding|index_select|gather|take(_along_dim)?|(__)?getitem(__)?")
_LOADS = (Opcode.LOAD_GLOBAL, Opcode.LOAD_NAME)


def refuse_unraised(trace: Trace, target: Any, fakes: Iterable[Any]) -> None:
    """Refuses a call whose exception the code handles, and that no kernel raises. On a GPU eager raises none either.

    Raises:
        Unsupported: So that CPython makes this call.
        LeftWithCalls: The block is a caller's.
    """
    name = name_of(target)
    raised = next((kind for names, kind in _RAISED if names.fullmatch(name)), None)
    if raised is None or not any(_takes_it(frame, raised) for frame in trace.stack):
        return
    tensors = [part for fake in fakes for part in _parts(fake) if isinstance(part, torch.Tensor)]
    if not tensors or any(fake.is_cuda for fake in tensors):
        return
    if _READS.fullmatch(name):
        table, positions = (tensors[1], tensors[:1]) if name == "embedding" else (tensors[0], tensors[1:])
        if all(_is_inside(trace, table, one) for one in positions if _counts(one)):
            return
    reason = f"{name} stands in a try block for the {raised.__name__} of a value out of range, which no kernel raises"
    if _takes_it(trace.stack[-1], raised):
        raise Unsupported(reason, _HINT)
    raise LeftWithCalls(
        reason, _HINT, trace.where()
    )  # else the function that makes the call is captured by itself


def _parts(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [inner for part in value for inner in _parts(part)]
    return [value]


def _counts(fake: torch.Tensor) -> bool:
    return not fake.is_floating_point() and not fake.is_complex() and fake.dtype is not torch.bool


def _is_inside(trace: Trace, table: torch.Tensor, positions: torch.Tensor) -> bool:
    """Whether these are positions in every dimension of what is read: their values are known."""
    known = trace.values.value(positions)
    if known is None or any(isinstance(size, torch.SymInt) for size in table.shape) or not table.dim():
        return False
    return not known.numel() or (int(known.min()) >= 0 and int(known.max()) < min(table.shape))


def _takes_it(frame: Frame, raised: type[Exception]) -> bool:
    """Whether an exception at a frame's instruction meets an ``except`` block, or a `suppress`, that takes it."""
    rows, at = frame.decoded.instructions, frame.start
    seen: set[int] = set()
    while (row := frame.decoded.handler_of(at)) is not None and row.target not in seen:
        seen.add(row.target)
        at = row.target
        if rows[at].name != Opcode.PUSH_EXC_INFO:  # CPython's own
            continue
        if rows[at + 1].name == Opcode.WITH_EXCEPT_START:
            if _is_suppress(frame, row.depth):
                return True
        elif _has_clause(frame, at + 1, raised):
            return True
    return False


def _is_suppress(frame: Frame, depth: int) -> bool:
    leave = frame.stack[depth - 1] if 0 < depth <= len(frame.stack) else None
    owner = leave.owner if isinstance(leave, BoundMethod) else None
    kind = type(owner.value) if isinstance(owner, Obj) else owner.kind if isinstance(owner, New) else None
    return kind is contextlib.suppress


def _has_clause(frame: Frame, at: int, raised: type[Exception]) -> bool:
    """Whether one of the clauses from an instruction on is for what eager raises; one that is not read may be."""
    rows = frame.decoded.instructions
    while not _raises_again(frame, at):
        kinds: list[Any] = []
        while rows[at].name in _LOADS or (rows[at].name == Opcode.LOAD_ATTR and kinds):
            if rows[at].name == Opcode.LOAD_ATTR:
                kinds[-1] = getattr(kinds[-1], rows[at].argval, None)
            else:
                kinds.append(frame.globals.get(rows[at].argval, getattr(builtins, rows[at].argval, None)))
            at += 1
        at += rows[at].name == Opcode.BUILD_TUPLE
        if rows[at].name != Opcode.CHECK_EXC_MATCH:
            return True
        caught = [part for kind in kinds for part in _parts(kind)]
        if not all(isinstance(kind, type) for kind in caught) or not caught:
            return True
        if any(issubclass(raised, kind) for kind in caught):
            return True
        jump = rows[at + 1]
        if jump.name != Opcode.POP_JUMP_IF_FALSE or jump.target is None:
            return True
        at = jump.target
    return False


def _raises_again(frame: Frame, at: int) -> bool:
    """Whether what is left of a handler asks for nothing and ends in the exception again, as a ``finally`` block does,
    and what follows clauses that all ask for something else."""
    rows = frame.decoded.instructions[at:]
    return next((row.name for row in rows if row.name in HANDLER_ENDS), "") == Opcode.RERAISE
