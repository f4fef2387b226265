"""Members of lists of modules, and which of them reads a value."""

from __future__ import annotations

import functools

import torch
from torch import fx

Member = tuple[str, int]  # the list, and the place in it


@functools.cache
def list_members(module: str) -> tuple[Member, ...]:
    """(``blocks``, 3) for ``blocks.3.attn``; all such pairs where lists are nested."""
    parts = module.split(".")
    return tuple((".".join(parts[:n]), int(part)) for n, part in enumerate(parts) if n and part.isdigit())


def members_reading(node: fx.Node) -> frozenset[Member]:
    """The members in which something is done with a value, however it is viewed first; written back it is not read."""
    members: set[Member] = set()
    for user in node.users:
        if user.op == "output" or user.target is torch.ops.aten.select_scatter.default:
            continue
        origin = user.meta.get("provenance")
        members |= (
            members_reading(user) if is_view(user) else {*list_members(origin.module if origin else "")}
        )
    return frozenset(members)


def is_view(node: fx.Node) -> bool:
    """Whether an op's result shares memory with its first argument."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.all_input_nodes:
        return False
    returned = node.target._schema.returns
    return len(returned) == 1 and returned[0].alias_info is not None
