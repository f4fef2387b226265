"""What longhand takes from torch's Dynamo by private names, as long as Dynamo captures for it; see torch_private.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch._dynamo

__all__ = ["BreakReason", "graph_break", "mark_dynamic", "reasons_of_breaks"]

# Dynamo knows these two by identity when it meets them in the code it captures.
graph_break = torch._dynamo.graph_break
mark_dynamic = torch._dynamo.mark_dynamic


@dataclasses.dataclass(frozen=True)
class BreakReason:
    """Why Dynamo cut the code in two.

    Attributes:
        reason: In Dynamo's words, on one line.
        where: ``file:line`` of the user's code.
        statement: The user's line.
    """

    reason: str
    where: str
    statement: str


def reasons_of_breaks(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[BreakReason, ...]:
    """Runs a call once under Dynamo's explainer; forgets what Dynamo has compiled so far."""
    reasons = []
    for broken in torch._dynamo.explain(fn)(*args, **kwargs).break_reasons:
        if not broken.graph_break:
            continue
        frame = broken.user_stack[-1] if broken.user_stack else None
        where = f"{frame.filename}:{frame.lineno}" if frame else ""
        first_line = next((line for line in str(broken.reason).splitlines() if line.strip()), "")
        reasons.append(BreakReason(first_line.strip(), where, (frame.line or "").strip() if frame else ""))
    return tuple(reasons)
