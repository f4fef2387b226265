"""What a layer's function says of a sum that the layer before left to its first kernel."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from longhand.lower.ir import Extern
from longhand.schedule.named_plan import BufferNamer, Loop, op_word
from longhand.schedule.plan import Launch

_WIDEST_REMARK = 96


def remark_on_deferred_residual(loop: Loop, words: BufferNamer, variables: Mapping[str, str]) -> str:
    """What a layer's function says of a sum of two of its arguments; empty where it begins with no such sum."""
    first = next((step for step in loop.run if isinstance(step, Launch | Extern)), None)
    if not isinstance(first, Launch):
        return ""
    for origin in first.origins:
        node = words.nodes.get(origin)
        summands = _summands(node) if node is not None else ()
        if len(summands) == 2 and set(summands) <= set(loop.inputs):
            total = " + ".join(variables[summand] for summand in summands)
            remark = (
                f"The layer's input is {total}: the layer before leaves that sum to the first kernel here."
            )
            return remark if len(remark) <= _WIDEST_REMARK else "The first kernel adds up the layer's input."
    return ""


def _summands(node: fx.Node) -> tuple[str, ...]:
    """The two values that a node adds, as they were before they were only seen otherwise."""
    if op_word(node).word != "add" or len(node.args) < 2:
        return ()
    sides = [_behind_views(side) for side in node.args[:2] if isinstance(side, fx.Node)]
    return tuple(dict.fromkeys(side.name for side in sides))


def _behind_views(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and op_word(node).silent and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node
