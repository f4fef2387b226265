"""What the instructions of an f-string do to a frame.

What names a tensor's values is a text that is made where something reads it: most are messages that nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longhand.capture import torch_private, torch_transforms
from longhand.capture.bytecode.frames.dispatch import Steps
from longhand.capture.bytecode.frames.frame import Frame, Instruction
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import as_python
from longhand.capture.bytecode.values.tracked import Const, Tensor, TextPart, UnreadText, Value
from longhand.capture.bytecode.versions.opcodes import Opcode

__all__ = ["STEPS"]

STEPS = Steps()
_CONVERSIONS: dict[int, Callable[[Any], str]] = {1: str, 2: repr, 3: ascii}


@STEPS.of(Opcode.BUILD_STRING)
def _build_string(trace: Trace, frame: Frame, step: Instruction) -> None:
    values = [trace.force(value) for value in frame.popn(step.arg)]
    if any(isinstance(value, UnreadText) for value in values):
        parts = [
            value.parts if isinstance(value, UnreadText) else [as_python(trace, value)] for value in values
        ]
        frame.push(UnreadText([part for some in parts for part in some]))
        return
    frame.push(Const("".join(as_python(trace, value) for value in values)))


@STEPS.of(Opcode.FORMAT_VALUE)
def _format_value(trace: Trace, frame: Frame, step: Instruction) -> None:
    spec = as_python(trace, frame.pop()) if step.arg & 4 else ""
    frame.push(_formatted(trace, _converted(trace, frame.pop(), step.arg & 3), spec))


@STEPS.of(Opcode.CONVERT_VALUE)
def _convert_value(trace: Trace, frame: Frame, step: Instruction) -> None:
    frame.push(_converted(trace, frame.pop(), step.arg))


@STEPS.of(Opcode.FORMAT_SIMPLE, Opcode.FORMAT_WITH_SPEC)
def _format(trace: Trace, frame: Frame, step: Instruction) -> None:
    spec = as_python(trace, frame.pop()) if step.name == Opcode.FORMAT_WITH_SPEC else ""
    frame.push(_formatted(trace, frame.pop(), spec))


def _converted(trace: Trace, value: Value, which: int) -> Value:
    value = trace.force(value)
    if which not in _CONVERSIONS:
        return value
    if _is_read_later(trace, value):
        assert isinstance(value, Tensor)
        return UnreadText([_part(value, _CONVERSIONS[which])])
    return Const(_CONVERSIONS[which](as_python(trace, value)))


def _formatted(trace: Trace, value: Value, spec: str) -> Value:
    value = trace.force(value)
    if isinstance(value, UnreadText) and not spec:
        return value
    if not spec and _is_read_later(trace, value):  # another specification may raise
        assert isinstance(value, Tensor)
        return UnreadText([_part(value, format)])
    return Const(format(as_python(trace, value), spec))


def _is_read_later(trace: Trace, value: Value) -> bool:
    if not isinstance(value, Tensor) or not trace.may_delay or torch_transforms.is_inside_transform():
        return False
    trace.has_delayed = True
    return True


def _part(value: Tensor, made: Callable[[Any], str]) -> TextPart:
    is_counted = not value.fake.is_inference()
    return TextPart(value, made, torch_private.version(value.fake) if is_counted else None)
