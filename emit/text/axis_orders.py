"""Tensors whose axes come in another order than a kernel's: the call that brings them there; and parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import fx

from longhand.lower.ir import PointwiseOp
from longhand.schedule.named_plan import KernelNames, aten_name
from longhand.schedule.plan import (
    KernelPlan,
    limit_along,
)


def axis_order_call(order: Sequence[str], wanted: Sequence[str]) -> str:
    """The call that brings dimensions in `order` into the order `wanted`."""
    moved = [place for place, axis in enumerate(wanted) if order[place] != axis]
    if len(moved) == 2:
        if len(order) == 2:
            return ".t()"
        one, other = (place - len(order) if moved[0] >= len(order) - 2 else place for place in moved)
        return f".transpose({one}, {other})"
    return f".permute({', '.join(str(order.index(axis)) for axis in wanted)})"


def slices_taken(
    plan: KernelPlan, names: KernelNames, join: fx.Node, within: Sequence[Iterable[tuple[int, bool]]]
) -> list[str]:
    """``[:half]`` and ``[half:]`` behind the pieces of a cat, where each is taken from where it comes to lie.

    Args:
        plan: The kernel.
        names: Its words.
        join: The cat.
        within: Of each piece but the last what holds there: conditions by their place in the body.
    """
    told = [[limit_along(plan, one, PointwiseOp.LT) for one, holds in some if holds] for some in within]
    limits = [names.scalars[end[1]] for some in told for end in some if end is not None]
    pieces = [one for one in join.all_input_nodes if join.args[0] == [*join.all_input_nodes]]
    n_dims = join.meta["val"].ndim
    is_last = (join.args[1] if len(join.args) > 1 else 0) in (-1, n_dims - 1)
    if not is_last or not len(pieces) == len(limits) + 1 == len(within) + 1:
        return []
    at: object = 0
    for piece in pieces:
        begin, size = _begin_of(piece), piece.meta["val"].shape[-1]
        if begin != at or not isinstance(begin, int) or not isinstance(size, int):
            return []
        at = begin + size
    return [f"[{start}:{end}]" for start, end in zip(["", *limits], [*limits, ""], strict=True)]


def _begin_of(piece: fx.Node) -> object:
    """Where in the last dimension of another value one begins that sees a part of that; None where it does not."""
    while aten_name(piece) in _VIEWS:
        match aten_name(piece), piece.args:
            case "slice", (fx.Node() as of, int() as dim, start, *_) if _is_last(of, dim):
                return start or 0
            case "getitem", (fx.Node(args=(fx.Node() as of, list() as sizes, int() as dim)), int() as place):
                return sum(sizes[:place]) if _is_last(of, dim) else None
            case "select", (fx.Node() as of, int() as dim, _) if _is_last(of, dim):
                return None
            case "getitem", _:
                return None
        piece = piece.all_input_nodes[0]
    return None


_VIEWS = frozenset({"slice", "getitem", "select", "unsqueeze", "alias"})


def _is_last(node: fx.Node, dim: int) -> bool:
    return dim in (-1, node.meta["val"].ndim - 1)
