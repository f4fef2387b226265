"""Words of dimensions that meet are words of one size: ``nf`` features that are added to ``dim`` are ``dim``.

They meet where an operation needs them equal, never because they are. Words that stand beside each other in one value
stay two, though both are as long: queries and keys of one sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import fx

from longhand.lower.ir import Size
from longhand.schedule.names.dimensions.compound_names import ProductWord, Words
from longhand.schedule.names.dimensions.dimension_propagation import shape_of
from longhand.schedule.names.operation_names import aten_name

_Key = tuple[str, str]  # a word and the size that it stands for there


def one_word_each(graph: fx.Graph, words: Mapping[str, Words], fixed: Iterable[Words]) -> dict[str, Words]:
    """Values with other words, where what they had meets a dimension with a word that comes first.

    Args:
        graph: The captured graph.
        words: Of its values.
        fixed: The words of the call's arguments, which stay.
    """
    given = {word for each in fixed for word in each if word is not None}
    classes = _Classes(graph, words)
    for node in graph.nodes:
        for met in _met(node, words) if node.op == "call_function" else ():
            classes.unite(met)
    renamed = classes.renamed(given)
    changed: dict[str, Words] = {}
    for node in graph.nodes if renamed else ():
        old, shape = words.get(node.name, ()), shape_of(node)
        new = tuple(_told(word, size, renamed) for word, size in zip(old, shape, strict=False))
        if len(new) == len(old) and new != old and len(set(new)) >= len(set(old)):
            changed[node.name] = new
    return changed


class _Classes:
    """Which words stand for one size, each with the others that it has met."""

    def __init__(self, graph: fx.Graph, words: Mapping[str, Words]) -> None:
        self._of: dict[_Key, list[_Key]] = {}
        self._beside: set[frozenset[_Key]] = set()
        for node in graph.nodes:
            each = list(dict.fromkeys(_keys(node, words)))
            for place, one in enumerate(each):
                self._of.setdefault(one, [one])
                self._beside |= {frozenset((one, other)) for other in each[:place]}

    def unite(self, met: tuple[_Key, _Key]) -> None:
        one, other = (self._of[key] for key in met)
        if one is not other and not any(frozenset((a, b)) in self._beside for a in one for b in other):
            one += other
            self._of |= dict.fromkeys(other, one)

    def renamed(self, given: set[str]) -> dict[_Key, str]:
        """What those words become that are not their class's first: a word of an argument, else the one seen first."""
        order = {key: place for place, key in enumerate(self._of)}
        renamed: dict[_Key, str] = {}
        for key, together in self._of.items():
            first = min(together, key=lambda one: (one[0] not in given, order[one]))
            if key[0] not in given and first != key:
                renamed[key] = first[0]
        return renamed


def _plain(word: str | None, size: Size) -> _Key | None:
    is_plain = word is not None and type(word) is str and word.isidentifier() and str(size) != "1"
    return (str(word), str(size)) if is_plain else None


def _keys(node: fx.Node, words: Mapping[str, Words]) -> Iterator[_Key]:
    shape, known = shape_of(node), words.get(node.name, ())
    for word, size in zip(known, shape, strict=True) if len(shape) == len(known) else ():
        if (key := _plain(word, size)) is not None:
            yield key


def _met(node: fx.Node, words: Mapping[str, Words]) -> Iterator[tuple[_Key, _Key]]:
    """The words of each two dimensions that the operation needs as long as each other."""
    given = [argument for argument in node.all_input_nodes if shape_of(argument)]
    for (one, place), (other, back) in _dims_met(node, given):
        pair = [
            _plain(words[value.name][dim], shape_of(value)[dim])
            for value, dim in ((one, place), (other, back))
            if len(words.get(value.name, ())) == len(shape_of(value)) >= abs(dim)
        ]
        if len(pair) == 2 and pair[0] is not None and pair[1] is not None and pair[0][1] == pair[1][1]:
            yield pair[0], pair[1]


def _dims_met(
    node: fx.Node, given: list[fx.Node]
) -> Iterator[tuple[tuple[fx.Node, int], tuple[fx.Node, int]]]:
    name = aten_name(node)
    if torch.Tag.pointwise in getattr(node.target, "tags", ()):
        for argument in given:
            yield from (((argument, -back), (node, -back)) for back in range(1, len(shape_of(argument)) + 1))
    elif name == "scaled_dot_product_attention" and len(given) > 2:
        query, key, value, *mask = given
        yield (key, -2), (value, -2)
        for one in mask[:1]:
            yield from (((query, -2), (one, -2)), ((key, -2), (one, -1)))
            yield from (((query, -back), (one, -back)) for back in (3, 4) if len(shape_of(one)) >= back)
    elif name in ("bmm", "matmul") and len(given) == 2 and min(len(shape_of(one)) for one in given) > 1:
        yield (given[0], -1), (given[1], -2)


def _told(word: str | None, size: Size, renamed: Mapping[_Key, str]) -> str | None:
    if isinstance(word, ProductWord):
        told = [renamed.get((part, str(of)), part) for part, of in zip(word.of, word.sizes, strict=False)]
        return ProductWord(told, word.sizes) if len(told) == len(word.of) else word
    return renamed.get((word or "", str(size)), word)
