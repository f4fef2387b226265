"""Branches on a tensor's value of which one way does nothing but raise: ``if not valid.all(): raise ValueError(...)``.

Capture takes the other way, and the graph the value for granted.
"""

from __future__ import annotations

from longhand.capture.bytecode.entry.assumed import assume, may_assume
from longhand.capture.bytecode.frames.frame import Frame, Instruction
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Tensor, Value
from longhand.capture.bytecode.versions.opcodes import LEAVES, Opcode

__all__ = ["is_jump_taken"]

_MOST_STEPS = 80


def is_jump_taken(trace: Trace, frame: Frame, step: Instruction, value: Value, wanted: bool) -> bool | None:
    """Whether a jump leads past the exception; None where neither way, or each, is nothing but one.

    Args:
        value: What the jump looks at.
        wanted: Which truth it jumps at.
    """
    if not isinstance(value, Tensor) or not may_assume(trace, value):
        return None
    assert step.target is not None
    raises_here, raises_there = _only_raises(frame, frame.index), _only_raises(frame, step.target)
    if raises_here == raises_there:
        return None
    assume(trace, value, wanted is raises_here)
    return raises_here


def _only_raises(frame: Frame, index: int) -> bool:
    """Whether the instructions from here on run straight to a raise."""
    for row in frame.decoded.instructions[index : index + _MOST_STEPS]:
        if row.name == Opcode.RAISE_VARARGS:
            return True
        if row.target is not None or row.name in LEAVES:
            return False
    return False
