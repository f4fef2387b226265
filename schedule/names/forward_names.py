"""What the forward pass calls the values that a backward pass reads, makes again, or makes the gradients of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class ForwardNames:
    """By the names of the backward graph's nodes.

    Attributes:
        words: The forward's words for a value, best first, those for gradients of it for the gradient of one.
        fillers: Those of them that say only by which operation the value is made.
        modules: The path of the module in which the forward makes the value.
        differentiated: By gradient the placeholder of the value that it is the gradient of.
        variables: The variables of the forward pass, each by the layer in whose function it stands; of a gradient
            those for it.
    """

    words: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    fillers: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    modules: Mapping[str, str] = dataclasses.field(default_factory=dict)
    differentiated: Mapping[str, str] = dataclasses.field(default_factory=dict)
    variables: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def variable(self, node: str, layer: str = "") -> str:
        """The variable that the function of a layer has for a value, or the one around layers; empty if it has none."""
        return self.variables.get(node, {}).get(layer, "")


NO_FORWARD = ForwardNames()
