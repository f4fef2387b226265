"""What a graph takes for granted of a tensor's value, because the code does nothing but raise where it is otherwise.

The graph returns the value. Where it turns out otherwise nothing of the graph's call is kept, and CPython runs the
call again from its start: so eager's own statement raises, after all that is before it.
"""

from __future__ import annotations

import torch

from longhand.capture import torch_transforms
from longhand.capture.bytecode.entry.raising import may_be_caught, refuse_order
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Tensor

__all__ = ["assume", "may_assume"]


def may_assume(trace: Trace, value: Tensor) -> bool:
    """Whether a tensor's truth may be looked at after the graph."""
    if not trace.assumes or value.node.op == "placeholder" or torch_transforms.is_inside_transform():
        return False
    if any(isinstance(size, torch.SymInt) for size in value.fake.shape) or value.fake.numel() != 1:
        return False
    return not any(map(may_be_caught, trace.stack))


def assume(trace: Trace, value: Tensor, truth: bool) -> None:
    """Takes a tensor's truth for granted.

    Raises:
        Unsupported: It may be written to an input that is not kept, so that CPython could not run the call again.
    """
    trace.assumed.append((value, truth))
    trace.may_raise = trace.may_raise or "a check of values may fail"
    refuse_order(trace)
