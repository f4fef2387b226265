"""Takes out of a graph what nothing reads, but for what is called because it may raise."""

from __future__ import annotations

import torch
from torch import fx


def remove_dead_code(graph: fx.Graph) -> None:
    """Takes out calls whose results nothing reads.

    An op that returns nothing is called for what it does, such as ``_linalg_check_errors``, which raises. torch knows
    most of these by name, and each version others: here the op's schema tells.
    """
    graph.eliminate_dead_code(lambda node: node.is_impure() or returns_nothing(node.target))


def returns_nothing(target: object) -> bool:
    """Whether an op is called for what it does."""
    return isinstance(target, torch._ops.OpOverload) and not target._schema.returns
