"""What meets in an operation is as long: the words of a result, carried back to what it was made of.

A table of cosines is multiplied with the queries, so that its dimensions are those of the queries that it meets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import torch
from torch import fx

from longhand.lower.ir import Size
from longhand.schedule.names.dimensions.compound_names import Words
from longhand.schedule.names.dimensions.dimension_propagation import (
    RESHAPES,
    moved_back,
    shape_of,
)
from longhand.schedule.names.dimensions.parts import place_of
from longhand.schedule.names.dimensions.reshaped_words import reshaped
from longhand.schedule.names.operation_names import aten_name

_MOVES = ("transpose", "permute", "t", "unsqueeze", "select")
_SAME = frozenset(
    {"clone", "_to_copy", "contiguous", "alias", "detach", "dropout", "expand", "cat", "slice_scatter"}
)
_SAME_BUT_FOR_PIECES = frozenset({"slice", "narrow"})
_ATTENTIONS = frozenset(
    {"scaled_dot_product_attention"}
    | {f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn")}
)
_KEYS_OF_ATTENTION = {
    0: (0, 1, 3),
    1: (0, 1, 3),
    2: (0, 1),
}  # which dimensions queries, keys and values share


def words_met(node: fx.Node, words: Mapping[str, Words]) -> Iterator[tuple[str, Words]]:
    """What the result of a node, and its arguments among each other, tell of each argument's dimensions."""
    name, shape, own = aten_name(node), shape_of(node), words.get(node.name, ())
    given = [argument for argument in node.all_input_nodes if shape_of(argument)]
    if name in _ATTENTIONS:
        yield from _met_in_attention(given[:3], words)
        yield from _met_in_mask(given, words)
        return
    if len(own) != len(shape) or not any(own) or not given:
        return
    first = given[0]
    if name in RESHAPES:
        yield first.name, reshaped(shape, own, shape_of(first))
    elif name in _MOVES:
        moved = moved_back(name, node.args, own, len(shape_of(first)))
        if moved is not None and len(moved) == len(shape_of(first)):
            yield first.name, moved
    elif name == "stack":
        place = place_of(node, len(shape))
        yield from ((argument.name, (*own[:place], *own[place + 1 :])) for argument in given)
    elif name in ("linear", "mm", "bmm", "matmul", "baddbmm"):
        if name == "baddbmm":  # what is added to the product
            yield first.name, _met(shape, own, shape_of(first))
            first, given = given[1], given[1:]
        if len(shape_of(first)) == len(shape):
            yield first.name, (*own[:-1], None)
        if name != "linear" and len(given) > 1 and len(shape_of(given[1])) == len(shape):
            yield given[1].name, (*own[:-2], None, own[-1])
    elif name in _SAME_BUT_FOR_PIECES or name in _SAME or _is_pointwise(node):
        for argument in given:
            yield argument.name, _met(shape, own, shape_of(argument))


def _met_in_attention(given: list[fx.Node], words: Mapping[str, Words]) -> Iterator[tuple[str, Words]]:
    """Queries and keys are as wide, keys and values as many; batch and heads are everybody's."""
    shapes = [shape_of(one) for one in given]
    known = [words.get(one.name, ()) for one in given]
    if len(given) < 3 or any(len(shape) != 4 for shape in shapes) or any(len(one) != 4 for one in known):
        return
    for (place, one), other in itertools.product(enumerate(given), range(3)):
        if place != other:
            shared = set(_KEYS_OF_ATTENTION[place]) & set(_KEYS_OF_ATTENTION[other])
            shared |= {2} if 0 not in (place, other) else set()
            told = tuple(known[other][dim] if dim in shared else None for dim in range(4))
            yield one.name, _met(shapes[other], told, shapes[place])


def _met_in_mask(given: list[fx.Node], words: Mapping[str, Words]) -> Iterator[tuple[str, Words]]:
    """A mask is as large as the scores, which are (batch, heads, queries, keys), or is repeated for them."""
    if len(given) < 4 or any(len(shape_of(one)) != 4 for one in given[:2]):
        return
    query, key, _, mask = given[:4]
    of_query, of_key = (words.get(one.name, ()) for one in (query, key))
    if len(of_query) == 4 and len(of_key) == 4 and len(shape_of(mask)) <= 4:
        scores = (*shape_of(query)[:3], shape_of(key)[2])
        yield mask.name, _met(scores, (*of_query[:3], of_key[2]), shape_of(mask))


def _is_pointwise(node: fx.Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _met(shape: tuple[Size, ...], words: Words, other: tuple[Size, ...]) -> Words:
    """The words of dimensions, counted from the last one, that are as long in the other shape; of one element none."""
    if len(other) > len(shape):
        return (None,) * len(other)
    offset = len(shape) - len(other)
    return tuple(
        words[offset + dim] if str(shape[offset + dim]) == str(size) != "1" else None
        for dim, size in enumerate(other)
    )


def learned(old: Words, met: Words) -> Words:
    """The words that a value has, and those that it had none for; no word stands for two of its dimensions.

    But for one that is met there for both: as many keys as queries, of a mask.
    """
    known_words = list(old)
    for dim, word in enumerate(met):
        others = (of for of, known in enumerate(known_words) if known == word)
        if known_words[dim] is None and word is not None and all(met[of] == word for of in others):
            known_words[dim] = word
    return tuple(known_words)
