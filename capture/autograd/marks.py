"""What a rule of differentiation says about a node, for the rules of what comes before it."""

from __future__ import annotations

import enum
from typing import Any

from torch import fx


class Mark(enum.Enum):
    """What a node is to a loss whose own gradient is a single number."""

    FACTOR = "factor"  # that number
    UNSCALED = "unscaled"  # a gradient without it: the forward pass can compute it


def set_mark(node: fx.Node, mark: Mark) -> None:
    """Marks a node; copies of it keep the mark."""
    node.meta[mark.value] = True


def has_mark(value: Any, mark: Mark) -> bool:
    """Whether an argument is a node that is marked so."""
    return isinstance(value, fx.Node) and mark.value in value.meta
