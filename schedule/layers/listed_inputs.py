"""What the caller gives each layer: the entries of a list, one for each member of a list of modules.

A cache is such a list (``keys[3]`` is for ``blocks.3``), or a tensor whose slices are the entries (`InputKind.PART`).
To find layers that are equal, an entry counts as the layer's own, as its weights are: under a path that stands below
the layer's. In the layer's function it is a parameter, and whoever calls that passes ``keys[layer]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.graph import CapturedGraph, Literal, members_reading
from longhand.schedule.names.parameter_names import children, parameters_in_order
from longhand.schedule.names.words import identifier
from longhand.schedule.once import once_for

Steps = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True)
class ListedInput:
    """An entry of a list that the call is given, which one layer reads.

    Attributes:
        steps: How the call reaches it: ``("keys", 3)``, ``("caches", 3, 1)``.
        depth: Which of these steps is the layer's.
        owner: The list of modules that the layer is a member of.
        number: The layer's place in that.
    """

    steps: Steps
    depth: int
    owner: str
    number: int

    @property
    def below(self) -> str:
        """The same for all layers, and no weight's name."""
        around = [*self.steps[: self.depth], "", *self.steps[self.depth + 1 :]]
        return "".join(f"[{step}]" for step in around)

    @property
    def word(self) -> str:
        """A word that all layers have for theirs: ``keys``, ``caches_1``."""
        return identifier("_".join(map(str, (*self.steps[: self.depth], *self.steps[self.depth + 1 :]))))

    @property
    def path(self) -> str:
        """Where a weight of the layer would be."""
        return f"{self.owner}.{self.number}.{self.below}"

    @property
    def distance(self) -> int:
        """How much further the entry stands in its list than the layer in its own."""
        place = self.steps[self.depth]
        assert isinstance(place, int)
        return place - self.number


@once_for
def listed_inputs(graph: CapturedGraph) -> Mapping[str, ListedInput]:
    """The entries of lists that are layers' own, by placeholder."""
    if not graph.is_module or graph.paths or graph.n_saved:
        return {}
    nodes = {node.name: node for node in graph.graph.nodes if node.op == "placeholder"}
    lists: dict[tuple[Steps, Steps], dict[int, str]] = {}
    reached = dict(_reached(graph))
    for name, steps in reached.items():
        for depth, step in enumerate(steps):
            if isinstance(step, int):
                lists.setdefault((steps[:depth], steps[depth + 1 :]), {})[step] = name
    listed: dict[str, ListedInput] = {}
    for (before, _), entries in lists.items():
        chosen = _layers_of({place: nodes[name] for place, name in entries.items()})
        if chosen is not None:
            owner, numbers = chosen
            for place, number in numbers.items():
                name = entries[place]
                listed.setdefault(name, ListedInput(reached[name], len(before), owner, number))
    return listed


def _layers_of(entries: Mapping[int, fx.Node]) -> tuple[str, dict[int, int]] | None:
    """The list of modules of which each entry is for another member, and by place the member; None if there is none."""
    members = {place: own for place, node in entries.items() if (own := members_reading(node))}
    if len(members) < 2:
        return None
    for owner in sorted({owner for own in members.values() for owner, _ in own}):
        numbers = {place: [n for one, n in own if one == owner] for place, own in members.items()}
        if any(len(own) != 1 for own in numbers.values()):
            continue
        if len({own[0] - place for place, own in numbers.items()}) == 1:
            return owner, {place: own[0] for place, own in numbers.items()}
    return None


def _reached(graph: CapturedGraph) -> Iterator[tuple[str, Steps]]:
    """How the call reaches each of the tensors in lists."""
    for name, spec, leaves in parameters_in_order(graph):
        yield from _leaves(spec, iter(leaves), (name,))
    for entry in graph.inputs:
        if entry.part is not None:
            yield entry.node, entry.part


def _leaves(
    spec: pytree.TreeSpec, leaves: Iterator[str | Literal], steps: Steps
) -> Iterator[tuple[str, Steps]]:
    if spec.is_leaf():
        leaf = next(leaves)
        if isinstance(leaf, str):
            yield leaf, steps
        return
    inner: Sequence[pytree.TreeSpec] = children(spec)
    for place, child in enumerate(inner):
        if spec.type in (tuple, list):
            yield from _leaves(child, leaves, (*steps, place))
        else:
            for _ in range(child.num_leaves):
                next(leaves)
