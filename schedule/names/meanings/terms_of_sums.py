"""Terms of sums without a variable: of a statement, ``q_embed_cos_term``, and of a gradient, ``d_q_from_sin``.

``q_embed = (q * cos) + (rotate_half(q) * sin)`` has two of the first kind, and its derivative two of the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import fx

from longhand.capture.graph import Provenance
from longhand.schedule.names.operation_names import aten_name, op_word, provenance_of
from longhand.schedule.names.value_origins import ValueOrigins, last_word, without_positions
from longhand.schedule.names.words import identifier, snake_case, without_counter

_SUMS = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"mul", "div"})
_LONGEST = 32  # characters of a term's word


def words_of_term(node: fx.Node, origins: ValueOrigins) -> Iterator[str]:
    """``q_embed_cos_term``: of a product that its statement adds up, what is assigned there and the product's factor.

    Args:
        node: What may be one.
        origins: Where the graph's values come from.
    """
    if not _is_product(node) or provenance_of(node).differentiates:
        return
    target = _target_of_sum(node, origins)
    if target is None:
        return
    statement = origins.of(node).statement
    for factor in reversed(node.args[:2]):
        word = _word_in(statement, factor, origins) if isinstance(factor, fx.Node) else None
        if word is not None and word != target and len(f"{target}_{word}_term") <= _LONGEST:
            yield f"{target}_{word}_term"


def word_of_reader(origin: Provenance, of: str, origins: ValueOrigins) -> str:
    """What a part of a gradient comes from: the layer, or the function, or the factor; for a table's rows, the lookup.

    Args:
        origin: Of the part.
        of: The word of what it is a part of the gradient of.
        origins: Where the forward graph's values come from.
    """
    word = last_word(without_positions(origin.module)) or without_counter(origin.differentiates)
    made = origins.provenance(origin.gradient_of)
    if made.module == origin.module and made.file:
        word = _function(origin, made) or _factor(origin, origins) or word
    if f"_{word}_" not in f"_{of}_":
        return word
    node = origins.nodes.get(origin.differentiates)
    if node is not None and aten_name(node) == "embedding":
        return "lookup"
    return snake_case(origin.module_class) or word


def _function(origin: Provenance, made: Provenance) -> str:
    """The user's function that reads what another one makes; empty where it is a method, or the same."""
    is_plain = bool(origin.qualname) and "." not in origin.qualname
    return identifier(origin.qualname) if is_plain and origin.qualname != made.qualname else ""


def _factor(origin: Provenance, origins: ValueOrigins) -> str:
    """What a value is multiplied by where it is read."""
    node = origins.nodes.get(origin.differentiates)
    if node is None or not _is_product(node):
        return ""
    factors = [factor for factor in node.args[:2] if isinstance(factor, fx.Node)]
    others = [factor for factor in factors if not _is_of(factor, origin.gradient_of)]
    words = [_word_in(origin.statement, factor, origins) for factor in others]
    return words[0] or "" if len(words) == 1 else ""


def _is_product(node: fx.Node) -> bool:
    return node.op == "call_function" and aten_name(node) in _PRODUCTS


def _is_of(node: fx.Node, name: str) -> bool:
    """Whether a node is the one of a name, seen otherwise or not."""
    while node.name != name:
        if node.op != "call_function" or not op_word(node).silent or not node.all_input_nodes:
            return False
        node = node.all_input_nodes[0]
    return True


def _word_in(statement: str, node: fx.Node, origins: ValueOrigins) -> str | None:
    """What a statement calls a value, or what it is a view of."""
    named = {*re.findall(r"[A-Za-z_]\w*", statement)}
    while True:
        word = origins.local(node) or (without_counter(node.name) if node.op == "placeholder" else None)
        if word is not None:
            return identifier(word) if word in named else None
        if node.op != "call_function" or not op_word(node).silent or not node.all_input_nodes:
            return None
        node = node.all_input_nodes[0]


def _target_of_sum(node: fx.Node, origins: ValueOrigins) -> str | None:
    """What the statement of a value assigns, where all that it does with the value is to add it to something."""
    statement = provenance_of(node).statement
    while True:
        users = [user for user in node.users if user.op == "call_function"]
        if len(users) != 1 or provenance_of(users[0]).statement != statement:
            return None
        node = users[0]
        if not op_word(node).silent and aten_name(node) not in _SUMS:
            return None
        local = origins.local(node)
        if local is not None:
            return identifier(local) if aten_name(node) in _SUMS else None
