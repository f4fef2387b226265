"""What is divided by a vector's length: the vector itself, or what is to be the length of a weight (weight norm)."""

from __future__ import annotations

from torch import fx

_BOUNDS = frozenset({"clamp", "clamp_min"})
_SEEN = frozenset({"expand", "expand_as", "view", "reshape", "unsqueeze", "squeeze", "alias"})


def is_over_own_norm(node: fx.Node) -> bool:
    """Whether a quotient is a value over its own length: ``x / x.norm().clamp_min(eps)``."""
    measured = _measured(node.args[1]) if len(node.args) > 1 else None
    return measured is not None and measured is node.args[0]


def is_scale_of_weight(node: fx.Node) -> bool:
    """Whether a quotient is a weight's own length over that of what it is made of: ``g / v.norm()``, to multiply v."""
    if _op(node) != "div" or len(node.args) < 2:
        return False
    length, measured = node.args[0], _measured(node.args[1])
    are_held = isinstance(length, fx.Node) and length.op == "placeholder" and length is not measured
    return (
        are_held
        and measured is not None
        and measured.op == "placeholder"
        and all(_op(user) == "mul" and measured in user.args for user in node.users)
    )


def weight_norm(nodes: list[fx.Node]) -> str | None:
    """``weight_norm_scale``, ``weight_norm``: the name of a kernel that makes the one or the other; else None.

    Args:
        nodes: What it does, in order, what only moves data left out.
    """
    ops, last = [_op(node) for node in nodes], nodes[-1] if nodes else None
    if last is None:
        return None
    if ops == ["linalg_vector_norm", "div"] and is_scale_of_weight(last):
        return "weight_norm_scale"
    factors = [factor for factor in last.args if isinstance(factor, fx.Node)]
    is_whole = ops in (["mul"], ["linalg_vector_norm", "div", "mul"]) and any(
        map(is_scale_of_weight, factors)
    )
    return "weight_norm" if is_whole else None


def words_by_length(node: fx.Node) -> list[str]:
    """``weight_scale``, ``normalized_weight``: the words for what weight norm makes."""
    if is_scale_of_weight(node):
        return ["weight_scale"]
    is_product = _op(node) == "mul" and any(
        isinstance(f, fx.Node) and is_scale_of_weight(f) for f in node.args
    )
    return ["normalized_weight"] if is_product else []


def _measured(divisor: object) -> fx.Node | None:
    """The value whose length something is, bounded from below or not."""
    while isinstance(divisor, fx.Node) and (_op(divisor) in _BOUNDS or _op(divisor) in _SEEN):
        divisor = divisor.args[0]
    if not isinstance(divisor, fx.Node) or _op(divisor) != "linalg_vector_norm":
        return None
    measured = divisor.args[0]
    return measured if isinstance(measured, fx.Node) else None


def _op(node: fx.Node) -> str:
    packet = getattr(node.target, "overloadpacket", None)
    return str(getattr(packet, "__name__", ""))
