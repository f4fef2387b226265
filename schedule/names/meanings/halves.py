"""Halves of a value: which one a node takes, and the rotation that joins them in the other order, one negated."""

from __future__ import annotations

from typing import Any

from torch import fx


def rotated_half(node: fx.Node) -> fx.Node | None:
    """The value whose halves a node joins in the other order, one of them negated; None for anything else."""
    if _op(node) != "cat" or not node.args or not isinstance(node.args[0], list | tuple):
        return None
    pieces = [piece for piece in node.args[0] if isinstance(piece, fx.Node)]
    signs = [_op(piece) == "neg" for piece in pieces]
    if len(pieces) != 2 or len(node.args[0]) != 2 or signs[0] == signs[1]:
        return None
    halves = [half_of(piece.args[0] if sign else piece) for piece, sign in zip(pieces, signs, strict=True)]
    first, second = halves
    if first is None or second is None or (first[1], second[1]) != (1, 0) or first[0] is not second[0]:
        return None
    return first[0]


def rotates_pairs(node: fx.Node) -> bool:
    """Whether a node puts two parts of one value side by side, one negated: ``stack([-x_imag, x_real], -1)``."""
    pieces = node.args[0] if _op(node) == "stack" and node.args else None
    if not isinstance(pieces, list | tuple) or len(pieces) != 2:
        return False
    plain = [
        piece.args[0] if _op(piece) == "neg" else piece for piece in pieces if isinstance(piece, fx.Node)
    ]
    parts = [_parts_of(piece) for piece in plain]
    is_one_negated = sum(isinstance(piece, fx.Node) and _op(piece) == "neg" for piece in pieces) == 1
    return is_one_negated and len(parts) == 2 and parts[0] is not None and parts[0] is parts[1]


def _parts_of(node: Any) -> fx.Node | None:
    """What several calls take a value from as a part: ``x.unbind(-1)`` of its items, ``x`` of slices of it."""
    if not isinstance(node, fx.Node) or not node.args or _op(node) not in ("getitem", "select", "slice"):
        return None
    source = node.args[0]
    return source if isinstance(source, fx.Node) else None


def half_of(node: Any) -> tuple[fx.Node, int] | None:
    """The value that a node is a half of, and which one: ``x.chunk(2)[1]``, ``x[..., n // 2:]``."""
    if not isinstance(node, fx.Node) or not node.args or not isinstance(node.args[0], fx.Node):
        return None
    source = node.args[0]
    if _op(node) == "getitem" and _op(source) in ("split", "split_with_sizes", "chunk"):
        is_two = len(source.meta.get("val", ())) == 2 and isinstance(source.args[0], fx.Node)
        return (source.args[0], int(str(node.args[1]))) if is_two else None  # type: ignore[return-value]
    if _op(node) == "slice" and len(node.args) >= 2:
        dim, start = node.args[1], (*node.args[2:3], None)[0]
        size = source.meta["val"].shape[dim]
        if 2 * node.meta["val"].shape[dim] == size:
            return source, 0 if start in (None, 0) else 1
    return None


def _op(node: fx.Node) -> str:
    packet = getattr(node.target, "overloadpacket", None)
    return str(getattr(packet if packet is not None else node.target, "__name__", ""))
