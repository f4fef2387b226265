"""What a value of a graph is to the formula that it stands in: ``scores``, ``denominator``, ``pre_norm``.

For what the user has no variable for, where the operation's own noun would say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import torch
from torch import fx

from longhand.capture.graph import GradientPart, Provenance
from longhand.schedule.names.meanings.lengths import words_by_length
from longhand.schedule.names.operation_names import aten_name, is_norm, op_word, provenance_of
from longhand.schedule.names.words import without_counter

_PRODUCTS = frozenset({"matmul", "bmm", "mm", "baddbmm"})
# What may stand between a product of queries and keys and its softmax.
_TO_SCORES = frozenset(
    {"scale", "mul", "div", "add", "sub", "mask", "where", "clamp", "tanh", "bias", "max", "cat"}
)
_STEPS = 8
_SOFTMAX = frozenset({"softmax", "safe_softmax"})


def word_before_weight(node: fx.Node, origin: Provenance, local: str) -> Iterator[str]:
    """``normalized``, of what a norm that the user wrote out multiplies by its weight, where both have one variable.

    ``x = x * rsqrt(variance + eps)`` and ``return weight * x``: the gradient of that variable is the product's.
    """
    if aten_name(node) != "mul" or not any(map(_is_rstd, node.all_input_nodes)):
        return
    _, is_assigned, made = origin.statement.partition("=")
    is_own = bool(is_assigned) and re.search(rf"\b{re.escape(local)}\b", made) is not None
    weighing = [user for user in _readers(node) if aten_name(user) == "mul" and _has_vector(user)]
    is_weighed = any(is_own or provenance_of(user).local == local for user in weighing)
    if is_weighed or any(provenance_of(user).differentiates for user in node.users):
        yield "normalized"


def _is_rstd(node: fx.Node) -> bool:
    """Whether a value is 1 / sqrt(...) of each row."""
    value = node.meta.get("val")
    is_of_rows = isinstance(value, torch.Tensor) and value.ndim > 1 and value.shape[-1] == 1
    name = aten_name(node) if node.op == "call_function" else without_counter(node.name)
    return is_of_rows and name == "rsqrt"


def _has_vector(product: fx.Node) -> bool:
    """Whether a product is one with a weight."""
    return any(isinstance(one, fx.Node) and one.meta["val"].ndim == 1 for one in product.args)


def words_by_use(node: fx.Node) -> Iterator[str]:
    """Words for what a value is used for, best first."""
    if provenance_of(node).differentiates or not _is_float(node):
        return
    name, users = aten_name(node), _readers(node)
    if name in _PRODUCTS and _is_of_two_made(node) and _is_weighted_by_softmax(node):
        yield "scores"
    if name in _PRODUCTS and _is_made_by_softmax(node.args[0]):
        yield "attended"
    yield from words_by_length(node)
    if not users:
        return
    if all(aten_name(user) == "div" and user.args[0] is not node for user in users):
        yield "denominator"
    if name in ("add", "add_") and all(is_norm(op_word(user).word) for user in users):
        yield "pre_norm"


def phrase_of_sum(node: fx.Node, short_name: Callable[[fx.Node], str | None]) -> str | None:
    """``x_plus_attn``: the sum of two values that have short names of their own; with a bias it is ``biased_conv``."""
    if aten_name(node) not in ("add", "add_"):
        return None
    sides = [argument for argument in node.args[:2] if isinstance(argument, fx.Node)]
    if len(sides) != 2:
        return None
    made = [side for side in sides if not _is_vector(_source(side))]
    words = [short_name(side) for side in sides]
    if len(made) == 1:
        word = words[sides.index(made[0])]
        return f"biased_{word}" if word else None
    if not all(words) or words[0] == words[1]:
        return None
    return f"{words[0]}_plus_{words[1]}"


def sum_of_summands(node: fx.Node, value_of: Callable[[Provenance], str | None]) -> str | None:
    """The value that all terms of a sum are parts of the gradient of; None of any other node."""
    if node.op != "call_function" or aten_name(node) not in ("add", "add_"):
        return None
    values: set[str | None] = set()
    for argument in node.args[:2]:
        source = _source(argument) if isinstance(argument, fx.Node) else None
        if source is None:
            return None
        origin = provenance_of(source)
        is_part = origin.part is GradientPart.SUMMAND and bool(origin.gradient_of)
        values.add(value_of(origin) if is_part else sum_of_summands(source, value_of))
    return values.pop() if len(values) == 1 else None


def _is_of_two_made(node: fx.Node) -> bool:
    """Whether both factors are made, and neither is given to the graph, as weights are."""
    factors = [argument for argument in node.args if isinstance(argument, fx.Node)]
    return len(factors) >= 2 and all(_source(factor).op == "call_function" for factor in factors[-2:])


def _is_vector(node: fx.Node) -> bool:
    """Whether a graph is given a value of one dimension: a bias, where it is added to something."""
    return node.op == "placeholder" and getattr(node.meta.get("val"), "ndim", 0) == 1


def _source(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and op_word(node).silent and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _is_made_by_softmax(factor: object) -> bool:
    """Whether a factor is what a softmax makes, seen otherwise or not."""
    source = _source(factor) if isinstance(factor, fx.Node) else None
    return source is not None and source.op == "call_function" and op_word(source).word in _SOFTMAX


def _is_weighted_by_softmax(node: fx.Node) -> bool:
    """Whether a softmax is what a value goes to, through scales, biases and masks."""
    waiting, seen = [(node, 0)], {node}
    while waiting:
        value, steps = waiting.pop(0)
        for user in _readers(value):
            word = op_word(user).word
            if word in _SOFTMAX | {"log_softmax"}:
                return True
            if user not in seen and word in _TO_SCORES and steps < _STEPS:
                seen.add(user)
                waiting.append((user, steps + 1))
    return False


def _readers(node: fx.Node) -> list[fx.Node]:
    """What computes with a value, through views and copies of it; results of calls, and derivatives, left out."""
    readers: list[fx.Node] = []
    for user in node.users:
        if user.op != "call_function" or provenance_of(user).differentiates:
            continue
        readers += _readers(user) if op_word(user).silent else [user]
    return readers


def _is_float(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point
