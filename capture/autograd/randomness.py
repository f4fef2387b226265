"""Which calls draw random numbers: they run once, in the forward pass, and what the backward needs of them is kept."""

from __future__ import annotations

import torch
from torch import fx


def is_random(node: fx.Node) -> bool:
    """Whether a second run would give something else."""
    return isinstance(node.target, torch._ops.OpOverload) and draws(node.target)


def draws(target: torch._ops.OpOverload) -> bool:
    """Whether an op takes numbers from a generator."""
    return torch.Tag.nondeterministic_seeded in target.tags
