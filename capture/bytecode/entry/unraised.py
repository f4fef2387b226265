"""What eager raises for a tensor's values, and a kernel does not: a position out of range is NaN there.

Where the code has an ``except`` block for that, the block is to run: CPython makes such a call. A block that does
nothing but to raise changes nothing where nothing is out of range, as no block does: then it is no reason.
"""

from __future__ import annotations

import builtins
import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
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
_RETURNS = (Opcode.RETURN_VALUE, Opcode.RETURN_CONST)
_LOADS = (Opcode.LOAD_GLOBAL, Opcode.LOAD_NAME)


def refuse_unraised(trace: Trace, target: Any, fakes: Iterable[Any]) -> None:
    """Refuses a call whose exception the code handles, and that no kernel raises. On a GPU eager raises none either.

    Raises:
        Unsupported: So that CPython makes this call.
        LeftWithCalls: The block is a caller's.
    """
    name = name_of(target)
    raised = next((kind for names, kind in _RAISED if names.fullmatch(name)), None)
    if raised is None or not _is_handled(trace.stack, raised):
        return
    tensors = [part for fake in fakes for part in _parts(fake) if isinstance(part, torch.Tensor)]
    if not tensors or any(fake.is_cuda for fake in tensors):
        return
    if _READS.fullmatch(name):
        table, positions = (tensors[1], tensors[:1]) if name == "embedding" else (tensors[0], tensors[1:])
        if all(_is_inside(trace, table, one) for one in positions if _counts(one)):
            return
    reason = f"{name} stands in a try block for the {raised.__name__} of a value out of range, which no kernel raises"
    if _is_handled(trace.stack[-1:], raised):
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


def _is_handled(stack: Sequence[Frame], raised: type[Exception]) -> bool:
    """Whether an exception in the innermost frame meets a block that goes on without it.

    What a block raises instead is looked at no closer: any further block may take it.
    """
    kind: type[Exception] | None = raised
    for frame in reversed(stack):
        for at in _handlers(frame):
            clause = _clause(frame, at, kind) if at is not None else None
            if at is None or (clause is not None and not _only_raises(frame, clause)):
                return True
            if clause is not None:
                kind = None
    return False


def _handlers(frame: Frame) -> Iterator[int | None]:
    """Where the clauses of the ``try`` blocks around a frame's instruction begin; None for a `suppress`."""
    rows, at = frame.decoded.instructions, frame.start
    seen: set[int] = set()
    while (row := frame.decoded.handler_of(at)) is not None and row.target not in seen:
        seen.add(row.target)
        at = row.target
        if rows[at].name != Opcode.PUSH_EXC_INFO:  # CPython's own
            continue
        if rows[at + 1].name != Opcode.WITH_EXCEPT_START:
            yield at + 1
        elif _is_suppress(frame, row.depth):
            yield None


def _only_raises(frame: Frame, at: int) -> bool:
    """Whether the code from an instruction on goes straight to a ``raise``."""
    for row in frame.decoded.instructions[at:]:
        if row.name == Opcode.RAISE_VARARGS:
            return True
        if row.name in HANDLER_ENDS or row.name in _RETURNS or row.target is not None:
            return False
    return False


def _is_suppress(frame: Frame, depth: int) -> bool:
    leave = frame.stack[depth - 1] if 0 < depth <= len(frame.stack) else None
    owner = leave.owner if isinstance(leave, BoundMethod) else None
    kind = type(owner.value) if isinstance(owner, Obj) else owner.kind if isinstance(owner, New) else None
    return kind is contextlib.suppress


def _clause(frame: Frame, at: int, raised: type[Exception] | None) -> int | None:
    """Where the clause for what is raised goes on, of those from an instruction on; one that is not read may be it.

    Args:
        frame: The code.
        at: Where its first clause begins.
        raised: None: any exception.
    """
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
            return at
        caught = [part for kind in kinds for part in _parts(kind)]
        jump = rows[at + 1]
        if not caught or not all(isinstance(kind, type) for kind in caught):
            return at + 2
        if raised is None or any(issubclass(raised, kind) for kind in caught):
            return at + 2
        if jump.name != Opcode.POP_JUMP_IF_FALSE or jump.target is None:
            return at + 1
        at = jump.target
    return None


def _raises_again(frame: Frame, at: int) -> bool:
    """Whether what is left of a handler asks for nothing and ends in the exception again, as a ``finally`` block does,
    and what follows clauses that all ask for something else."""
    rows = frame.decoded.instructions[at:]
    return next((row.name for row in rows if row.name in HANDLER_ENDS), "") == Opcode.RERAISE
