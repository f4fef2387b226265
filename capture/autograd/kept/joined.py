"""What is joined for a library's call is kept instead of its parts, where that is as much.

The parts of a joined tensor are as large as it is, so that the cut may take either. But the forward pass writes the
whole for the call, and to keep the parts it writes each once more. The backward pass then joins them again, for nothing
fuses with the derivative of the call: a kernel for every part, and memory for the whole while the parts still live.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import fx

from longhand.capture.autograd.kept.costs import bytes_of, is_light
from longhand.capture.functionalize.decompositions import packet_name
from longhand.capture.functionalize.view_nodes import is_view, seen

_JOINS = frozenset({"cat", "stack"})
_MOST_MORE = 1 / 16  # of its bytes: how much more the whole may be than the parts that it stands for


def joined_to_keep(
    in_forward: Collection[fx.Node], saved: Collection[fx.Node], recomputed: Collection[fx.Node]
) -> set[fx.Node]:
    """The joined tensors that take the place of their parts.

    Args:
        in_forward: What the forward pass computes for its own sake.
        saved: What it keeps.
        recomputed: What the backward pass computes again.
    """
    forward, kept, again = frozenset(in_forward), frozenset(saved), frozenset(recomputed)
    wholes = set()
    for node in again & forward:
        if _is_join(node) and _is_read_by_library(node, forward):
            parts = {seen(part) for part in node.all_input_nodes} & kept
            freed = sum(bytes_of(part) for part in parts if _is_for_alone(part, node, forward - again))
            if bytes_of(node) - freed <= _MOST_MORE * bytes_of(node):
                wholes.add(node)
    return wholes


def _is_join(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and packet_name(node.target) in _JOINS


def _readers(node: fx.Node) -> Iterator[fx.Node]:
    """Who reads a value, itself or through views."""
    for user in node.users:
        if is_view(user):
            yield from _readers(user)
        else:
            yield user


def _is_read_by_library(node: fx.Node, forward: Collection[fx.Node]) -> bool:
    """Whether a library's call reads it in the forward pass, and one in the backward."""
    calls = [reader for reader in _readers(node) if reader.op == "call_function" and not is_light(reader)]
    return len({call in forward for call in calls}) == 2


def _is_for_alone(part: fx.Node, whole: fx.Node, done_once: Collection[fx.Node]) -> bool:
    """Whether a part is kept for nothing but the whole: no derivative reads it, nothing else is made of it again."""
    return all(reader is whole or reader in done_once or reader.op == "output" for reader in _readers(part))
