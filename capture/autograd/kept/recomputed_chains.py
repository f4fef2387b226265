"""Values that the backward pass would compute again from one another, through the whole model: they are kept instead.

What a layer adds to a residual stream is often kept anyway (a norm behind a matrix product reads it), so the stream
itself seems free: each sum is the one before and something kept. But the last layer's derivative comes first, so such
a chain begins at the first layer, and every link that a layer reads lives from there until that layer's derivative.
Nothing is gained: at its peak the backward pass holds as much as if the links had been kept, and has computed them
twice. A short chain stays: its links live no longer than their layer's derivative.

And what every layer of a list is given is kept of all of them, or of none. The first layer's input is often cheap to
compute again (an embedding plus positions), that of the others is not: it is kept. Were the first one computed again,
its backward pass would be another one than theirs, for the sake of one tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from torch import fx

from longhand.capture.autograd.kept.costs import bytes_of
from longhand.capture.functionalize.view_nodes import is_view, seen
from longhand.capture.graph import Provenance

_MOST_LINKS = 2
_FEWEST_LAYERS = 2
_Place = tuple[
    str, str, object, int, bool
]  # the list, who reads in a layer, by which call, as which argument, and when


def links_to_keep(
    region: Sequence[fx.Node], recomputed: Collection[fx.Node], heavy: Collection[fx.Node]
) -> frozenset[fx.Node]:
    """The links of long chains.

    A link is computed again, and so is something that needs it twice: at once, and through an op that is not computed
    again. Its own way from the link before leads through arithmetic alone.

    Args:
        region: The forward's nodes that derivatives depend on, in the graph's order.
        recomputed: Those that the backward pass would compute again.
        heavy: Those that it never computes again.
    """
    bits = {node: 1 << place for place, node in enumerate(region)}
    again = frozenset(recomputed)
    at_once = _reached_at_once(region, again, bits)
    through_heavy = _reached_through(region, frozenset(heavy), bits)
    links = [node for node in region if node in again and _is_link(node, bits, at_once, through_heavy, again)]
    links = list(dict.fromkeys(seen(node) for node in links if seen(node) in again))
    narrow = (_narrowest(node, again) for node in links)
    links = _last_of_each([node for node in dict.fromkeys(narrow) if node], bits, at_once, through_heavy)
    is_far = _long_chains(links, bits, at_once)
    made_by_heavy = _below(region, heavy)
    return frozenset(node for node in links if node in is_far and node in made_by_heavy)


def _narrowest(node: fx.Node, recomputed: frozenset[fx.Node]) -> fx.Node | None:
    """The smallest of what a link is computed from, one from another; None where that leads to what is kept anyway."""
    best = node
    while node in recomputed:
        if len(node.all_input_nodes) != 1:
            return best
        node = node.all_input_nodes[0]
        if node in recomputed and bytes_of(node) < bytes_of(best):
            best = node
    return None


def _last_of_each(
    links: Sequence[fx.Node],
    bits: dict[fx.Node, int],
    at_once: dict[fx.Node, int],
    through_heavy: dict[fx.Node, int],
) -> list[fx.Node]:
    """Of links on the way to the same heavy ops the last one.

    The steps to a cell's next state (its gates' float32 copies, their products, their sum) all lead to what the state
    leads to, and to nothing else: with the state kept, the steps follow from what is kept beside it.
    """
    last: dict[int, fx.Node] = {}
    for node in links:
        last[through_heavy[node]] = node
    ends = ((node, last[through_heavy[node]]) for node in links)
    return list(dict.fromkeys(end if at_once[node] & bits[end] else node for node, end in ends))


def _reached_at_once(
    region: Sequence[fx.Node], recomputed: frozenset[fx.Node], bits: dict[fx.Node, int]
) -> dict[fx.Node, int]:
    """By node: what is computed again from it through nothing else than what is computed again."""
    reached: dict[fx.Node, int] = {}
    for node in reversed(region):
        reached[node] = 0
        for user in node.users:
            if user in recomputed:
                reached[node] |= bits[user] | reached[user]
    return reached


def _reached_through(
    region: Sequence[fx.Node], heavy: frozenset[fx.Node], bits: dict[fx.Node, int]
) -> dict[fx.Node, int]:
    """By node: what depends on it through a heavy one."""
    every: dict[fx.Node, int] = {}
    reached: dict[fx.Node, int] = {}
    for node in reversed(region):
        every[node] = reached[node] = 0
        for user in node.users:
            if user in bits:
                every[node] |= bits[user] | every[user]
                reached[node] |= every[user] if user in heavy else reached[user]
    return reached


def _is_link(
    node: fx.Node,
    bits: dict[fx.Node, int],
    at_once: dict[fx.Node, int],
    through_heavy: dict[fx.Node, int],
    recomputed: frozenset[fx.Node],
) -> bool:
    """Whether one of its users leads to something at once, another to the same through a heavy op."""
    users = [user for user in node.users if user in bits]
    for user in users:
        ahead = bits[user] | at_once[user] if user in recomputed else 0
        if ahead and any(ahead & through_heavy[other] for other in users if other is not user):
            return True
    return False


def _long_chains(
    links: Sequence[fx.Node], bits: dict[fx.Node, int], at_once: dict[fx.Node, int]
) -> frozenset[fx.Node]:
    """The links of chains of more than `_MOST_LINKS`."""
    before: dict[fx.Node, int] = {}
    after: dict[fx.Node, int] = {}
    for place, node in enumerate(links):
        lengths = [before[other] for other in links[:place] if at_once[other] & bits[node]]
        before[node] = 1 + max(lengths, default=0)
    for place in range(len(links) - 1, -1, -1):
        node = links[place]
        lengths = [after[other] for other in links[place + 1 :] if at_once[node] & bits[other]]
        after[node] = 1 + max(lengths, default=0)
    return frozenset(node for node in links if before[node] + after[node] - 1 > _MOST_LINKS)


def _below(region: Sequence[fx.Node], heavy: Collection[fx.Node]) -> set[fx.Node]:
    """What depends on a heavy op: a mask or a table that all layers read is none of it."""
    dependents: set[fx.Node] = set()
    for node in region:
        if any(source in dependents or source in heavy for source in node.all_input_nodes):
            dependents.add(node)
    return dependents


def inputs_to_keep(
    nodes: Collection[fx.Node], saved: Collection[fx.Node], recomputed: Collection[fx.Node]
) -> set[fx.Node]:
    """What is computed again for one layer of a list and kept for all others.

    Args:
        nodes: The joint graph's.
        saved: What the forward pass keeps.
        recomputed: What the backward pass computes again.
    """
    given: dict[_Place, dict[str, fx.Node]] = {}
    for node in nodes:
        for place, layer, source in _given(node):
            given.setdefault(place, {})[layer] = source
    kept, again = set(saved), set(recomputed)
    inputs: set[fx.Node] = set()
    for sources in given.values():
        others = {source for source in sources.values() if source not in kept}
        is_one_odd = (
            len(sources) >= _FEWEST_LAYERS and len(others) == 1 and len(set(sources.values())) == len(sources)
        )
        inputs |= {one for one in others if is_one_odd and one in again and not is_view(one)}
    return inputs


def _given(node: fx.Node) -> Iterator[tuple[_Place, str, fx.Node]]:
    """What a node of a layer reads that was not made in that layer."""
    owner, layer, inside = _layer(node)
    if not layer:
        return
    for position, source in enumerate(node.all_input_nodes):
        if source.op == "call_function" and _layer(source)[:2] != (owner, layer):
            yield (
                (
                    owner,
                    inside,
                    node.target,
                    position,
                    bool(Provenance.of(node).differentiates),
                ),
                layer,
                source,
            )


def _layer(node: fx.Node) -> tuple[str, str, str]:
    """The list that a node's layer is in, the layer's place, and the module inside of it."""
    parts = Provenance.of(node).module.split(".")
    place = next((at for at, part in enumerate(parts) if at and part.isdecimal()), None)
    if place is None:
        return "", "", ""
    return ".".join(parts[:place]), parts[place], ".".join(parts[place + 1 :])
