"""What was decided by the whole numbers of a module's buffers holds while they are what they were."""

from __future__ import annotations

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.breaks import SkipFrame
from longhand.capture.bytecode.trace import Trace

__all__ = ["guard_values"]


def guard_values(trace: Trace) -> None:
    """Guards the values of buffers that something was decided by.

    Raises:
        SkipFrame: One may have been written to under another name before it was looked at.
    """
    relied_on = trace.values.values_relied_on
    shared = {torch_private.storage_key(real) for real in relied_on.values()}
    written = trace.written() if shared else []
    for tensor, real in zip(trace.inputs, trace.real_inputs, strict=True):
        is_other = all(real is not one for one in relied_on.values())
        if is_other and tensor in written and torch_private.storage_key(real) in shared:
            raise SkipFrame("a buffer that decides something is written to under another name")
    for source, real in relied_on.items():
        value = real.tolist()
        readable = f"{source.name}: its value is {value!r}"
        trace.guards.add(source, "{}.tolist() == " + repr(value), readable)
