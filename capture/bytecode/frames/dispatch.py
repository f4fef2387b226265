"""The table from an instruction's name to what it does to a frame of tracked values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longhand.capture.bytecode.frames.frame import Frame, Instruction
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.tracked import Value

__all__ = ["Signal", "Step", "Steps"]

Step = Callable[[Trace, Frame, Instruction], "Signal | None"]


class Signal:
    """What an instruction may tell the frame's loop: it returns or yields `value`."""

    def __init__(self, value: Value, *, is_return: bool) -> None:
        self.value = value
        self.is_return = is_return


class Steps(dict[str, Step]):
    """What instructions do, by their names."""

    def of(self, *names: str) -> Callable[[Any], Any]:
        """Registers a function for the instructions of these names."""

        def register(step: Any) -> Any:
            self.update(dict.fromkeys(names, step))
            return step

        return register
