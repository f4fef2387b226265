"""Equal layers of a captured graph, found before anything is lowered: a program holds only the first few of each chain.

A layer is what lies between the first nodes of two neighbouring members of a list of modules (``blocks.3``,
``blocks.4``). Two layers are equal if their nodes are, one by one: the op, every argument (made in the same place of
the layer, of the layer before, by the same node outside, or the weight of the same name), the type and layout of the
value, and the user's statement. What the lowering and the scheduler decide for one of them then holds for the next;
`schedule/layers/replication.py` checks that, and makes the others from it.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, GraphInput, Literal, Provenance, list_members
from longhand.lower.ir import Layers
from longhand.lower.sizes import as_size

N_KEPT = 4  # one that differs at the beginning, two that are compared, one that ends otherwise
FEWEST_LEFT_OUT = 2

_PATHS = ("module", "around")  # have the number of the layer in them
_WORDS = operator.attrgetter(*(f.name for f in dataclasses.fields(Provenance) if f.name not in _PATHS))

_Place: TypeAlias = tuple[int, int]  # (layer, place in it)


def keep_first_layers(graph: CapturedGraph) -> tuple[CapturedGraph, tuple[Layers, ...]]:
    """The graph without all but the first layers of each chain of equal ones, and what was left out.

    What came after a chain takes the results of the last layer that is left. The graph itself where nothing is equal.
    """
    chains: list[Layers] = []
    replaced: dict[str, str] = {}
    nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
    inputs = _replaceable(graph)
    taken: set[str] = set()
    for owner, starts in _members(nodes).items():
        for chain in _Comparison(nodes, starts, owner, inputs, bool(graph.symbols)).chains():
            gone = {name for layer in chain.names[chain.n_kept :] for name in layer}
            if taken.isdisjoint(name for layer in chain.names for name in layer):
                taken |= {name for layer in chain.names for name in layer}
                chains.append(chain)
                last, new_last = chain.names[-1], chain.names[chain.n_kept - 1]
                replaced |= dict.fromkeys(gone, "") | dict(zip(last, new_last, strict=True))
    return (_without(graph, replaced), tuple(chains)) if chains else (graph, ())


def _replaceable(graph: CapturedGraph) -> dict[str, GraphInput]:
    """The inputs by node, without those that anything but the nodes that read them depends on."""
    tied = {path for group in graph.tied for path in group}
    fixed = {entry.input_node for entry in graph.mutations} | {entry.input_node for entry in graph.symbols}
    fixed |= {output.base for output in graph.outputs if isinstance(output.base, str)}
    fixed |= {name for group in graph.shared_storage for name in group}
    return {
        entry.node: entry for entry in graph.inputs if entry.node not in fixed and entry.target not in tied
    }


def _members(nodes: Sequence[fx.Node]) -> dict[str, list[int]]:
    """For each list of modules that are called in order, once each: where each member's first node stands."""
    starts: dict[str, list[int]] = {}
    last: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for owner, number in list_members(_provenance(node).module):
            known = last.get(owner)
            if known == number:
                continue
            if known is not None and number != known + 1:
                starts[owner] = []  # called again, or in another order
                last[owner] = -2
            elif known != -2:
                starts.setdefault(owner, []).append(place)
                last[owner] = number
    return dict(sorted(starts.items(), key=lambda entry: -len(entry[1])))


class _Comparison:
    """Which neighbouring members of one list are equal."""

    def __init__(
        self,
        nodes: Sequence[fx.Node],
        starts: list[int],
        owner: str,
        inputs: Mapping[str, GraphInput],
        is_symbolic: bool,
    ) -> None:
        self._inputs = inputs
        self._is_symbolic = is_symbolic
        self._owner = owner
        self._layers: list[Sequence[fx.Node]] = []
        if len(starts) >= N_KEPT + FEWEST_LEFT_OUT:
            # Nothing tells where the last one ends but the length of the one before.
            ends = [*starts[1:], min(2 * starts[-1] - starts[-2], len(nodes))]
            self._layers = [nodes[start:end] for start, end in zip(starts, ends, strict=True)]
            self._first = next(n for o, n in list_members(_provenance(nodes[starts[0]]).module) if o == owner)
            self._heads = [f"{owner}.{self._first + number}." for number in range(len(starts))]
        self._place_of: dict[fx.Node, _Place] = {
            node: (number, place)
            for number, layer in enumerate(self._layers)
            for place, node in enumerate(layer)
        }
        self._memory_of: dict[fx.Node, object] = {}
        self._weights: list[dict[fx.Node, fx.Node]] = [
            {} for _ in self._layers
        ]  # the next layer's, by this one's

    def chains(self) -> list[Layers]:
        """Chains that are long enough to leave members out."""
        chains: list[Layers] = []
        begin = 0
        for end in range(1, len(self._layers) + 1):
            if end < len(self._layers) and self._is_next(end - 1, end == begin + 1):
                continue
            if end - begin >= N_KEPT + FEWEST_LEFT_OUT:
                names = [tuple(node.name for node in self._layers[number]) for number in range(begin, end)]
                weights = list(self._weights[begin])
                for number in range(begin, end):
                    names[number - begin] += tuple(node.name for node in weights)
                    weights = [self._weights[number].get(node, node) for node in weights]
                chains.append(Layers(tuple(names), N_KEPT))
            begin = end
        return chains

    def _is_next(self, number: int, begins: bool) -> bool:
        """Whether layer `number + 1` equals layer `number`, which may take anything if the chain begins with it."""
        one, other = self._layers[number], self._layers[number + 1]
        pairs: dict[fx.Node, fx.Node] = {}
        is_equal = (
            len(one) == len(other)
            and self._is_closed(number)
            and all(self._is_same(a, b, number, begins, pairs) for a, b in zip(one, other, strict=True))
            and len(set(pairs.values())) == len(pairs)
        )
        self._weights[number] = pairs
        return is_equal

    def _is_closed(self, number: int) -> bool:
        """Whether nobody but the layer itself and the next one reads what it makes."""
        near = (number, number + 1)
        return all(
            user in self._place_of and self._place_of[user][0] in near
            for node in self._layers[number]
            for user in node.users
        )

    def _is_same(
        self, one: fx.Node, other: fx.Node, number: int, begins: bool, pairs: dict[fx.Node, fx.Node]
    ) -> bool:
        return (
            one.target is other.target
            and self._matches(one.args, other.args, number, begins, pairs)
            and one.kwargs.keys() == other.kwargs.keys()
            and all(
                self._matches(one.kwargs[key], other.kwargs[key], number, begins, pairs) for key in one.kwargs
            )
            and self._memory(one) == self._memory(other)
            and self._has_same_words(one, other, number)
        )

    def _matches(
        self, left: Any, right: Any, number: int, begins: bool, pairs: dict[fx.Node, fx.Node]
    ) -> bool:
        """Whether two arguments are the same of both layers."""
        kind = type(left)
        if kind is not type(right):
            return False
        if kind is fx.Node:
            return self._is_same_source(left, right, number, begins, pairs)
        if isinstance(left, tuple | list):
            if len(left) != len(right):
                return False
            same = (self._matches(a, b, number, begins, pairs) for a, b in zip(left, right, strict=True))
            return all(same)
        if kind is float:  # 0.0 == -0.0
            return repr(left) == repr(right)
        return bool(left == right)

    def _is_same_source(
        self, one: fx.Node, other: fx.Node, number: int, begins: bool, pairs: dict[fx.Node, fx.Node]
    ) -> bool:
        """Whether two layers take two values from corresponding places."""
        if one.op == "placeholder" or other.op == "placeholder":
            return one is other or self._is_next_weight(one, other, number, pairs)
        left, right = self._place_of.get(one), self._place_of.get(other)
        if left is not None and left[0] == number:
            return right == (number + 1, left[1])
        if right is not None and right[0] == number and begins:
            return self._memory(one) == self._memory(other)
        if left is not None and left[0] == number - 1:
            return right == (number, left[1])
        return one is other

    def _is_next_weight(
        self, one: fx.Node, other: fx.Node, number: int, pairs: dict[fx.Node, fx.Node]
    ) -> bool:
        """Whether two inputs are the same weight of the two modules, which nothing else uses."""
        if pairs.get(one) is other:
            return True
        left, right = self._inputs.get(one.name), self._inputs.get(other.name)
        if one in pairs or left is None or right is None:
            return False
        pairs[one] = other
        head = self._heads[number]
        return (
            left.target.startswith(head)
            and right.target == self._heads[number + 1] + left.target[len(head) :]
            and (left.kind, left.persistent) == (right.kind, right.persistent)
            and all(self._place_of.get(user, (-1, 0))[0] == number for user in one.users)
            and all(self._place_of.get(user, (-1, 0))[0] == number + 1 for user in other.users)
            and self._memory(one) == self._memory(other)
        )

    def _memory(self, node: fx.Node) -> object:
        """Type and layout of a node's value."""
        if node not in self._memory_of:
            self._memory_of[node] = _described(node.meta.get("val"), self._is_symbolic)
        return self._memory_of[node]

    def _has_same_words(self, one: fx.Node, other: fx.Node, number: int) -> bool:
        """Whether the user's code says the same of both nodes, up to the number of the layer."""
        left, right = _provenance(one), _provenance(other)
        head, module = self._heads[number], f"{left.module}."
        if module.startswith(head):
            module = self._heads[number + 1] + module[len(head) :]
        classes = ([kind for _, kind in origin.around] for origin in (left, right))
        is_alike = module[:-1] == right.module and _WORDS(left) == _WORDS(right)
        return is_alike and next(classes) == next(classes)


def _provenance(node: fx.Node) -> Provenance:
    provenance: Provenance = node.meta.get("provenance") or Provenance()
    return provenance


def _described(value: Any, is_symbolic: bool) -> object:
    """Type and layout of a value; `is_symbolic` if sizes may be."""
    if isinstance(value, torch.Tensor):
        if is_symbolic:
            layout = tuple(map(as_size, value.shape)), tuple(map(as_size, value.stride()))
        else:
            layout = value.shape, value.stride()
        return value.dtype, value.device, layout
    if isinstance(value, list | tuple):
        return tuple(_described(part, is_symbolic) for part in value)
    if isinstance(value, torch.SymInt):
        return as_size(value)
    return type(value), repr(value)


def _without(graph: CapturedGraph, replaced: Mapping[str, str]) -> CapturedGraph:
    """The graph without the nodes that are in `replaced`; their readers read what replaces them."""
    short = fx.Graph()
    copies: dict[str, fx.Node] = {}

    def current(name: str) -> str:
        return replaced.get(name) or name

    for node in graph.graph.nodes:
        if node.name not in replaced:
            copies[node.name] = short.node_copy(node, lambda arg: copies[current(arg.name)])
    outputs = tuple(
        (
            output
            if isinstance(output.value, Literal)
            else dataclasses.replace(output, value=current(output.value))
        )
        for output in graph.outputs
    )
    return dataclasses.replace(
        graph,
        graph=short,
        inputs=tuple(entry for entry in graph.inputs if entry.node not in replaced),
        outputs=outputs,
        mutations=tuple(
            dataclasses.replace(entry, value_node=current(entry.value_node)) for entry in graph.mutations
        ),
    )
