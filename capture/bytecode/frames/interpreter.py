"""The symbolic interpreter's loop: one instruction after the other, exceptions to their handlers."""

from __future__ import annotations

import os

from longhand.capture.bytecode.calls import calls
from longhand.capture.bytecode.entry.breaks import NeedsFixedSizes, Raised, SkipFrame, Unsupported
from longhand.capture.bytecode.frames import building, calling, instructions, texts
from longhand.capture.bytecode.frames.frame import Frame
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.attribute_writes import put
from longhand.capture.bytecode.values.tracked import Const, Value
from longhand.capture.bytecode.versions.opcodes import Opcode

__all__ = ["BreakHere", "Interpreter"]

_MOST_STEPS = 400_000
_STEPS = {**instructions.STEPS, **building.STEPS, **calling.STEPS, **texts.STEPS}


class BreakHere(Exception):
    """The outermost frame has reached the step at which it is to break."""


class Interpreter:
    """Runs frames for one trace.

    Args:
        trace: Where everything is collected.
        break_at: The number of the outermost frame's step that is left to CPython; None at first.
    """

    def __init__(self, trace: Trace, break_at: int | None) -> None:
        self.trace = trace
        self.break_at = break_at
        self.n_root_steps = 0
        self.n_steps = 0
        self.raised_at = 0  # the outermost frame's step that raised what is handled now, or was last
        trace.call_value = lambda function, args, kwargs: calls.call_value(trace, function, args, kwargs)
        trace.get_attribute = lambda owner, name: attributes.get(trace, owner, name)
        trace.get_special = lambda owner, name: attributes.get_special(trace, owner, name)
        trace.keep_attribute = lambda owner, name, value: put(trace, owner, name, value, plain=True)
        trace.all_items = lambda value: calls.all_items(trace, value)
        trace.iterate = lambda value: calls.iterate(trace, value)
        trace.advance = lambda value: calls.advance(trace, value)
        trace.run_frame = self.run

    def run(self, frame: Frame) -> Value:
        """Runs a frame to its return or, a generator's, to its next yield."""
        trace = self.trace
        trace.stack.append(frame)
        rows = frame.decoded.instructions
        is_root = len(trace.stack) == 1
        try:
            while True:
                if frame.thrown is not None:
                    error, frame.thrown = frame.thrown, None
                    self._handle(frame, Raised(error))
                step = rows[frame.index]
                if not frame.keyword_names:
                    frame.start = frame.index
                    if frame.start in frame.decoded.loop_heads:
                        frame.loops[frame.start] = len(frame.stack)
                    if is_root:
                        self._count_root_step()
                frame.index += 1
                self.n_steps += 1
                if self.n_steps > _MOST_STEPS:
                    raise Unsupported("the code runs for too long to be captured")
                handler = _STEPS.get(step.name)
                if handler is None:
                    raise Unsupported(f"the instruction {step.name}")
                try:
                    signal = handler(trace, frame, step)
                except Raised as raised:
                    self._handle(frame, raised)
                    continue
                except (Unsupported, SkipFrame, NeedsFixedSizes, BreakHere, RecursionError):
                    raise
                except Exception as error:
                    if os.environ.get("LONGHAND_DEBUG", "0") == "2":
                        raise
                    text = f"capture itself failed at {step.name}: {type(error).__name__}: {error}"
                    raise Unsupported(text) from None
                if signal is not None:
                    frame.finished = signal.is_return
                    return signal.value
        except (Unsupported, RecursionError) as error:
            if isinstance(error, RecursionError):
                error = Unsupported("calls are nested too deeply")
            if error.where is None:
                error.where = trace.where()
            raise error from None
        finally:
            trace.stack.pop()

    def _count_root_step(self) -> None:
        self.n_root_steps += 1
        if self.n_root_steps == self.break_at:
            raise BreakHere

    def _handle(self, frame: Frame, raised: Raised) -> None:
        """Goes to the handler of the instruction that raised; without one the exception leaves the frame."""
        if frame is self.trace.stack[0] and not self._is_raised_again(frame):
            self.raised_at = self.n_root_steps
        row = frame.decoded.handler_of(frame.start if not frame.keyword_names else frame.index - 1)
        frame.keyword_names = ()
        if row is None:
            frame.finished = True
            frame.returned = Const(None)
            raise raised
        del frame.stack[row.depth :]
        if row.lasti:
            frame.push(Const(frame.start))
        frame.push(raised.value)
        frame.index = row.target

    @staticmethod
    def _is_raised_again(frame: Frame) -> bool:
        """Whether the exception leaves a handler of another one, or goes on after a finally block."""
        is_handling = not (isinstance(frame.current_error, Const) and frame.current_error.value is None)
        return is_handling or frame.decoded.instructions[frame.start].name == Opcode.RERAISE
