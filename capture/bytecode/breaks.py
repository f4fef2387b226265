"""Why code is not captured: a graph break (CPython runs one instruction) or a skipped frame (CPython runs it all)."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["BreakRecord", "Raised", "SkipFrame", "Unsupported"]


class Unsupported(Exception):
    """Something that the symbolic interpreter does not do: the instruction of the outermost frame becomes a break.

    Args:
        reason: One clause, without a full stop.
        hint: What the user may do about it.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.where: str | None = None


class SkipFrame(Exception):
    """The whole frame is CPython's; functions that it calls are still captured."""


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
