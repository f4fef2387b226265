"""Folds what no input decides: a proven mask becomes an argument of attention, a known value its plainest form.

The facts are proofs, not guesses (see `facts`): a mask is causal if its condition *is* ``query - key >= 0`` for all
sizes in their range. What a call keeps of the reason is a remark on it, for the reader of the unit.

Attention without a mask does not look at the masked scores at all. Where one of those is NaN or infinite, eager's
``score + -inf`` is NaN and the row is lost; a causal call keeps the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.known.biases import mask_of, mask_word
from longhand.capture.known.call import shape_of
from longhand.capture.known.deduction import facts_of
from longhand.capture.known.facts import Affine, Fact, Piecewise, SameNumber
from longhand.capture.known.lookups import sliced
from longhand.capture.known.spelling import Emit, Spelling, is_plain, sizes_in, spelled
from longhand.capture.provenance import Provenance, remarked

aten = torch.ops.aten

# Argument positions of torch.nn.functional.scaled_dot_product_attention.
_MASK, _IS_CAUSAL = 3, 5


def fold_known(graph: fx.Graph, emit: Emit, carries: Callable[[fx.Node], bool] = lambda _: False) -> None:
    """Rewrites the graph in place; its results stay the same nodes.

    Args:
        graph: Functional; each node has its fake value and its provenance.
        emit: Adds a call at the graph's insertion point.
        carries: Whether gradients flow through a node: what is not read for its value has a gradient of zeros.
    """
    facts = facts_of(graph)
    if not facts:
        return
    sizes = sizes_in(graph)
    for node in list(graph.nodes):
        if node.target is aten.scaled_dot_product_attention.default:
            _fold_attention(node, facts)
        elif node not in facts:
            _fold_into_argument(graph, node, facts, carries, lambda at: Spelling(at, emit, sizes))
    _slice_tables(graph, facts, lambda at: Spelling(at, emit, sizes))
    remove_dead_code(graph)
    for node in list(graph.nodes):
        if node in facts and not is_plain(node) and not carries(node):
            with graph.inserting_before(node):
                plain = spelled(Spelling(node, emit, sizes), facts[node])
            if plain is not None:
                node.replace_all_uses_with(plain, delete_user_cb=lambda user: user.op != "output")
    remove_dead_code(graph)


def _slice_tables(graph: fx.Graph, facts: dict[fx.Node, Fact], at: Callable[[fx.Node], Spelling]) -> None:
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        with graph.inserting_before(node):
            rows = sliced(at(node), facts)
        if rows is not None:
            node.replace_all_uses_with(rows, delete_user_cb=lambda user: user.op != "output")


# -- attention -----------------------------------------------------------------------------------------------------


def _fold_attention(node: fx.Node, facts: dict[fx.Node, Fact]) -> None:
    """Without its mask where all of it is kept; causal where that is what the mask says."""
    mask = mask_of(node)
    fact = facts.get(mask) if mask is not None else None
    if fact is None or mask is None:
        return
    name = mask_word(node, mask)
    if isinstance(fact, SameNumber) and fact.number in (True, 0.0) and _keeps(mask, fact.number):
        _set_mask(node, is_causal=False, remark=f"no mask: {name} keeps every key, whatever the input")
    elif isinstance(fact, Piecewise) and any(_is_causal(node, mask, one) for one in (fact, fact.turned())):
        _set_mask(node, is_causal=True, remark=f"causal: {name} is kv <= q, whatever the input")


def _is_causal(node: fx.Node, mask: fx.Node, fact: Piecewise) -> bool:
    query, key = (shape_of(argument)[-2] for argument in node.args[:2])  # type: ignore[arg-type]
    rank = len(shape_of(mask))
    lower = Affine(0, (*(0 for _ in range(rank - 2)), 1, -1))
    is_square = rank >= 2 and shape_of(mask)[-2:] == (query, key) and query == key
    return (
        is_square and fact.conditions == {lower} and _keeps(mask, fact.inside) and _drops(mask, fact.outside)
    )


def _keeps(mask: fx.Node, number: Any) -> bool:
    return number is True if mask.meta["val"].dtype is torch.bool else number == 0


def _drops(mask: fx.Node, number: Any) -> bool:
    """Whether a score with that in its mask has no weight: False, minus infinity, or the least number there is."""
    dtype = mask.meta["val"].dtype
    return number is False if dtype is torch.bool else number <= torch.finfo(dtype).min


def _set_mask(node: fx.Node, is_causal: bool, remark: str) -> None:
    kwargs = {key: value for key, value in node.kwargs.items() if key != "attn_mask"}
    args = list(node.args)
    if len(args) > _MASK:
        args[_MASK] = None
    if is_causal and len(args) > _IS_CAUSAL:
        args[_IS_CAUSAL] = True
    elif is_causal:
        kwargs["is_causal"] = True
    if len(args) == _MASK + 1:
        args.pop()
    node.args, node.kwargs = tuple(args), kwargs
    node.meta["provenance"] = remarked(Provenance.of(node), remark)


# -- what a known argument makes of a call -------------------------------------------------------------------------


def _fold_into_argument(
    graph: fx.Graph,
    node: fx.Node,
    facts: dict[fx.Node, Fact],
    carries: Callable[[fx.Node], bool],
    at: Callable[[fx.Node], Spelling],
) -> None:
    """``mask & True`` is `mask`, as wide as the two are together; ``where(True, x, y)`` is `x`."""
    argument = _unchanged(node, facts)
    if not isinstance(argument, fx.Node):
        return
    if any(carries(one) for one in node.all_input_nodes if one is not argument):
        return
    old, new = node.meta["val"], argument.meta["val"]
    if (old.dtype, old.device) != (new.dtype, new.device):
        return
    if old.shape != new.shape:
        with graph.inserting_before(node):
            expanded = at(node).expanded(argument)
        if expanded is None:
            return
        argument = expanded
    node.replace_all_uses_with(argument, delete_user_cb=lambda user: user.op != "output")


def _unchanged(node: fx.Node, facts: dict[fx.Node, Fact]) -> Any:
    """The argument that the call yields as it is; None if it does not."""

    def is_everywhere(position: int, *numbers: Any) -> bool:
        given = node.args[position]
        fact = facts.get(given) if isinstance(given, fx.Node) else None
        return isinstance(fact, SameNumber) and any(fact.number is number for number in numbers)

    target = node.target
    if target in (aten.bitwise_and.Tensor, aten.logical_and.default):
        return next((node.args[1 - side] for side in (0, 1) if is_everywhere(side, True)), None)
    if target in (aten.bitwise_or.Tensor, aten.logical_or.default):
        return next((node.args[1 - side] for side in (0, 1) if is_everywhere(side, False)), None)
    if target is aten.where.self:
        return next((node.args[1 + (not kept)] for kept in (True, False) if is_everywhere(0, kept)), None)
    if target in (aten.masked_fill.Scalar, aten.masked_fill.Tensor):
        return node.args[0] if is_everywhere(1, False) else None
    return None
