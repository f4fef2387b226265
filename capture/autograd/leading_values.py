"""Which values of a captured graph lead to others, as far as gradients go back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

__all__ = ["carries", "leading_to_others"]


def carries(node: fx.Node) -> bool:
    """Whether a call of the graph makes it, and it requires grad."""
    value = node.meta.get("example_value")
    return node.op != "placeholder" and isinstance(value, torch.Tensor) and value.requires_grad


def leading_to_others(nodes: Sequence[fx.Node]) -> list[fx.Node]:
    """Those from which others of them are computed, of what carries gradients."""
    carrying = [node for node in nodes if carries(node)]
    return [node for node in carrying if _leads(node, set(carrying) - {node})]


def _leads(node: fx.Node, wanted: set[fx.Node]) -> bool:
    seen, waiting = {node}, [node]
    while waiting:
        users = [user for user in waiting.pop().users if user not in seen]
        if not wanted.isdisjoint(users):
            return True
        seen.update(users)
        waiting += users
    return False
