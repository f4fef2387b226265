"""Where a region under torch.utils.checkpoint begins and ends in a flat graph: calls that compute nothing.

Dynamo hands over such a region as a sub-graph; longhand's own capture writes its calls in line, between these two.
"""

from __future__ import annotations

__all__ = ["enter_checkpoint", "leave_checkpoint"]


def enter_checkpoint() -> None:
    """What follows, up to the `leave_checkpoint` that belongs to this call, is computed again in the backward pass."""


def leave_checkpoint() -> None:
    """The innermost region ends."""
