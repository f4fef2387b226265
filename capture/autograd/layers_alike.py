"""What every layer of a list is given is kept of all of them, or of none.

The first layer's input is often cheap to compute again (an embedding plus positions), that of the others is not: it is
kept. Were the first one computed again, its backward pass would be another one than theirs, for the sake of one tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from torch import fx

from longhand.capture.functionalize.view_nodes import is_view
from longhand.capture.graph import Provenance

FEWEST_LAYERS = 2
_Place = tuple[
    str, str, object, int, bool
]  # the list, who reads in a layer, by which call, as which argument, and when


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
    found: set[fx.Node] = set()
    for sources in given.values():
        others = {source for source in sources.values() if source not in kept}
        is_one_odd = (
            len(sources) >= FEWEST_LAYERS and len(others) == 1 and len(set(sources.values())) == len(sources)
        )
        found |= {one for one in others if is_one_odd and one in again and not is_view(one)}
    return found


def _given(node: fx.Node) -> Iterator[tuple[_Place, str, fx.Node]]:
    """What a node of a layer reads that was not made in that layer."""
    owner, layer, inside = _layer(node)
    if not layer:
        return
    for position, source in enumerate(node.all_input_nodes):
        if source.op == "call_function" and _layer(source)[:2] != (owner, layer):
            yield (owner, inside, node.target, position, bool(_origin(node).differentiates)), layer, source


def _layer(node: fx.Node) -> tuple[str, str, str]:
    """The list that a node's layer is in, the layer's place, and the module inside of it."""
    parts = _origin(node).module.split(".")
    place = next((at for at, part in enumerate(parts) if at and part.isdecimal()), None)
    if place is None:
        return "", "", ""
    return ".".join(parts[:place]), parts[place], ".".join(parts[place + 1 :])


def _origin(node: fx.Node) -> Provenance:
    found: Provenance = node.meta.get("provenance") or Provenance()
    return found
