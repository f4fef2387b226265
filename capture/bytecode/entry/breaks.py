"""Why code is not captured: a graph break (CPython runs one instruction) or a skipped frame (CPython runs it all)."""

from __future__ import annotations

import dataclasses
import traceback
from typing import Any

__all__ = [
    "BreakRecord",
    "LeftWithCalls",
    "NeedsData",
    "NeedsFixedSizes",
    "NothingLeft",
    "Raised",
    "SkipFrame",
    "Unsupported",
    "release",
]


class Unsupported(Exception):
    """Something that the symbolic interpreter does not do: the instruction of the outermost frame becomes a break.

    Args:
        reason: One clause, without a full stop.
        hint: What the user may do about it.
        where: ``file:line`` of the user's code, if it is known already.
    """

    def __init__(self, reason: str, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.where = where


class NeedsData(Unsupported):
    """What goes on depends on a tensor's values: in a loop it will be so again at each turn, with other sizes."""


class CallRaises(Unsupported):
    """A call of torch that raises of the shapes that it is given, as it would in eager."""


class SkipFrame(Exception):
    """The whole frame is CPython's; functions that it calls are still captured."""


class LeftWithCalls(SkipFrame):
    """The whole frame is CPython's, and so is all that it calls.

    Args:
        reason: One clause, without a full stop.
        hint: What the user may do about it.
        where: ``file:line`` of the user's code, if it is known already.
    """

    def __init__(self, reason: str, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint
        self.where = where


class NothingLeft(Exception):
    """What is left of a function after a break has no tensor, and breaks again: it is CPython's, and no break."""


class NeedsFixedSizes(Exception):
    """Gradients flow through what was captured with symbolic sizes, which a backward pass made ahead does not know."""


class Raised(Exception):
    """An exception of the user's program, on its way through interpreted frames.

    Args:
        value: The tracked exception.
    """

    def __init__(self, value: Any) -> None:
        super().__init__(str(value))
        self.value = value


@dataclasses.dataclass(frozen=True)
class BreakRecord:
    """One graph break or skipped frame.

    Attributes:
        reason: What was met.
        where: ``file:line`` of the user's code.
        hint: What to do about it.
        skipped: Whether CPython runs the whole frame.
    """

    reason: str
    where: str
    hint: str | None = None
    skipped: bool = False


def release(error: BaseException) -> None:
    """Lets go of the frames that an exception of capture went through.

    Their callers are the user's frames: a cycle through one of them (torch's code makes some) would keep alive what
    eager drops when a function returns, an open generator's ``finally`` for one.
    """
    reached: BaseException | None = error
    while reached is not None:
        traceback.clear_frames(reached.__traceback__)
        reached.__traceback__ = None
        reached = reached.__context__
