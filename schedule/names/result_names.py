"""The words of what a call returns besides its first result: ``rstd``, ``logsumexp``; and of parts of a derivative."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping

import torch
from torch import fx

from longhand.capture.graph import GradientPart, Provenance, Role
from longhand.schedule.names.operation_names import aten_name, op_word, provenance_of
from longhand.schedule.names.value_origins import (
    ValueOrigins,
    has_result_word,
    last_word,
    result_word,
    without_positions,
)
from longhand.schedule.names.words import GradientWord, identifier, path_names, reworded, without_counter

# Of calls whose schema has no words for them, by place.
_STATISTICS = {
    "_native_batch_norm_legit_functional": {1: "mean", 2: "rstd"},
    "native_layer_norm": {1: "mean", 2: "rstd"},
    "native_group_norm": {1: "mean", 2: "rstd"},
    "_fused_rms_norm": {1: "rstd"},
}
_PICKS = ("index", "gather", "scatter", "embedding", "_unsafe_index")
STATISTIC_WORDS = frozenset({"mean", "rstd"})
_KEPT = (
    "_native_batch_norm_legit_functional"  # its statistics outlive the layer, whose name says whose they are
)


def filled_word(node: fx.Node) -> str | None:
    """``zeros`` or ``ones``, of a tensor made of one number; ``filled`` with another; ``quotients`` of what is rounded.

    Whole numbers by which a tensor is read or written are ``indices``.

    None for any other tensor.
    """
    name = aten_name(node).removeprefix("new_").removesuffix("_like")
    if name == "floor_divide" or (name == "div" and node.kwargs.get("rounding_mode") is not None):
        users = [aten_name(user) for user in node.users if user.op == "call_function"]
        return "indices" if users and all(user.startswith(_PICKS) for user in users) else "quotients"
    if name in ("zeros", "ones"):
        return name
    number = (
        next(iter(node.args[2 if aten_name(node) == "new_full" else 1 :]), None) if name == "full" else None
    )
    if not isinstance(number, int | float):
        return None
    return "zeros" if number == 0 else "ones" if number == 1 else "filled"


def word_of_result(node: fx.Node, word: str) -> str:
    """``normed``, of what is normalized and then multiplied by a weight; any other word as it is."""
    weights = [one for one in node.args[:2] if isinstance(one, fx.Node) and one.op == "placeholder"]
    is_weighted = aten_name(node) == "mul" and any(one.meta["val"].ndim == 1 for one in weights)
    return "normed" if word == "normalized" and is_weighted else word


def call_of_several(node: fx.Node) -> fx.Node | None:
    """The call of which a node is one result; None where it is a part of a tensor, or the result."""
    call = node.args[0] if node.target is operator.getitem else None
    return call if isinstance(call, fx.Node) and not op_word(call).silent else None


def words_of_result(origins: ValueOrigins, call: fx.Node, place: object) -> Iterator[str]:
    """What a call's further results are, with the module's name where the word alone does not say whose."""
    word = _word_of_result(call, place)
    if word is None:
        return
    path = without_positions(origins.of(call).module)
    if word not in STATISTIC_WORDS or aten_name(call) != _KEPT:
        yield word
    if word in STATISTIC_WORDS:
        yield f"{last_word(path)}_{word}" if path else word


_GRADIENTS = {Role.D_NORMALIZED: GradientWord(Role.NORMALIZED)}


def words_of_role(origin: Provenance) -> Iterator[str]:
    """``normalized``, then whose it is: ``token_norm_normalized``, ``d_token_norm_normalized``."""
    if origin.role:
        role = _GRADIENTS.get(origin.role, origin.role)
        yield role
        layer = last_word(without_positions(origin.module))
        if layer:
            yield reworded(role, lambda of: f"{layer}_{of}")


def words_of_terms(node: fx.Node, weights: Mapping[str, str]) -> Iterator[str]:
    """``d_bias_terms``: what only has to be added up to be the gradient of a weight, or of another value.

    Args:
        node: The value.
        weights: By node: the path of the weight that it has the gradient of.
    """
    users = [user for user in node.users if user.op == "call_function"]
    if len(users) != 1 or aten_name(users[0]) != "sum":
        return
    origin = provenance_of(users[0])
    if origin.gradient_of and origin.part is GradientPart.WHOLE:
        word = identifier(users[0].name)
        _, *whose = path_names(weights.get(users[0].name, ""))
        yield from (f"d_{one}_terms" for one in whose)
        yield from dict.fromkeys(f"{one}_terms" for one in (without_counter(word), word))


def _word_of_result(call: fx.Node, place: object) -> str | None:
    """The name that a library call's further results have in its own signature: ``logsumexp``."""
    if not isinstance(call.target, torch._ops.OpOverload) or not isinstance(place, int):
        return None
    if aten_name(call) in _STATISTICS:
        return _STATISTICS[aten_name(call)].get(place)
    if aten_name(call).endswith("_with_indices") and place:
        return "indices"
    returns = call.target._schema.returns
    return (returns[place].name or None) if 0 < place < len(returns) else None


def words_of_pattern(origins: ValueOrigins, node: fx.Node, local: str) -> Iterator[str]:
    """Where the local is taken by the old value: what its whole statement is called, ``normalized``."""
    origin = origins.of(node)
    statement = origin.statement
    name = origins.name_of_statement(origin)
    if has_result_word(name) and statement.count(local) > 1:
        yield word_of_result(node, result_word(name))
