"""What capture tells of what it does with calls."""

from __future__ import annotations

import dataclasses
import enum

from longhand.capture.bytecode.entry.breaks import BreakRecord

__all__ = ["Event", "EventKind"]


class EventKind(enum.Enum):
    """What happened."""

    GRAPH = "graph"
    BREAK = "break"
    SKIP = "skip"
    RECOMPILE = "recompile"
    EAGER = "eager"


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that capture tells: a graph, a break, a skipped frame, a recompilation or a call in eager.

    Attributes:
        kind: What happened.
        text: For people, on one line.
        record: The break.
        guards: The graph's guards.
    """

    kind: EventKind
    text: str
    record: BreakRecord | None = None
    guards: tuple[str, ...] = ()
