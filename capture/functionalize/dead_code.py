"""Takes out of a graph what nothing reads, but for what is called because it may raise, or draws random numbers."""

from __future__ import annotations

import torch
from torch import fx


def remove_dead_code(graph: fx.Graph) -> None:
    """Takes out calls whose results nothing reads.

    An op that returns nothing is called for what it does, such as ``_linalg_check_errors``, which raises. torch knows
    most of these by name, and each version others: here the op's schema tells.
    """
    graph.eliminate_dead_code(lambda node: node.is_impure() or does_something(node.target))


def does_something(target: object) -> bool:
    """Whether an op is called for what it does: without it later random numbers are others."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return not target._schema.returns or torch.Tag.nondeterministic_seeded in target.tags
