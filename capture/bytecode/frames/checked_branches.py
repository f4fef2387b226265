"""Branches on a tensor's value of which one way does nothing but raise: ``if not valid.all(): raise ValueError(...)``.

Capture takes the other way, and the graph returns the value. Where it turns out otherwise nothing of the graph's call
is kept, and CPython runs the call again from its start: so eager's own statement raises, after all that is before it.
"""

from __future__ import annotations

import torch

from longhand.capture import torch_transforms
from longhand.capture.bytecode.entry.raising import may_be_caught, refuse_order
from longhand.capture.bytecode.frames.frame import Frame, Instruction
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Tensor, Value

__all__ = ["is_jump_taken"]

_MOST_STEPS = 80
_LEAVES = ("RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE", "FOR_ITER", "SEND", "RERAISE")


def is_jump_taken(trace: Trace, frame: Frame, step: Instruction, value: Value, wanted: bool) -> bool | None:
    """Whether a jump leads past the exception; None where neither way, or each, is nothing but one.

    Args:
        value: What the jump looks at.
        wanted: Which truth it jumps at.
    """
    if not isinstance(value, Tensor) or not trace.assumes or value.node.op == "placeholder":
        return None
    if torch_transforms.is_inside_transform() or any(isinstance(n, torch.SymInt) for n in value.fake.shape):
        return None
    assert step.target is not None
    raises_here, raises_there = _only_raises(frame, frame.index), _only_raises(frame, step.target)
    if value.fake.numel() != 1 or raises_here == raises_there or any(map(may_be_caught, trace.stack)):
        return None
    trace.assumed.append((value, wanted is raises_here))
    trace.may_raise = trace.may_raise or "a check of values may fail"
    refuse_order(trace)
    return raises_here


def _only_raises(frame: Frame, index: int) -> bool:
    """Whether the instructions from here on run straight to a raise."""
    for row in frame.decoded.instructions[index : index + _MOST_STEPS]:
        if row.name == "RAISE_VARARGS":
            return True
        if row.target is not None or row.name in _LEAVES:
            return False
    return False
