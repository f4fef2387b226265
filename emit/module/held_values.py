"""Where the values of tensors come from that a module holds and no state_dict has.

A short line of torch that makes the same values, or an entry of constants.pt: one for all that are equal. Where layers
of one class hold other values at the same place, each has an entry of its own, looked up by the layer's number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from longhand.capture.graph import CapturedGraph, GraphInput, InputKind
from longhand.emit.module.constants import literal_of
from longhand.emit.text.quoting import python_string


@dataclasses.dataclass(frozen=True)
class ByLayer:
    """An entry of constants.pt for each layer of a list: ``constants[f"layers.{layer}.cos"]``.

    Attributes:
        owner: The path of the list.
        below: The tensor's path in a layer.
    """

    owner: str
    below: str

    def expression(self, layer: str) -> str:
        """What reads it, given the word for the layer's number."""
        if all(part.isidentifier() or part.isdigit() for part in f"{self.owner}.{self.below}".split(".")):
            return f'constants[f"{self.owner}.{{{layer}}}.{self.below}"]'
        before, after = python_string(f"{self.owner}."), python_string(f".{self.below}")
        return f"constants[{before} + str({layer}) + {after}]"


@dataclasses.dataclass(frozen=True)
class HeldValues:
    """The values of a graph's constants and of its buffers that are in no state_dict.

    Attributes:
        sources: By target: the expression that makes the value, or which of the layer's own it is.
        stored: What constants.pt holds, by name.
    """

    sources: Mapping[str, str | ByLayer]
    stored: Mapping[str, torch.Tensor]


def is_in_state_dict(entry: GraphInput) -> bool:
    """Whether the original's state_dict has an input that the module holds."""
    return entry.kind is not InputKind.CONSTANT and entry.persistent


def held_values(graph: CapturedGraph, layers: Mapping[str, frozenset[int]]) -> HeldValues:
    """Where each value comes from.

    Args:
        graph: What was captured.
        layers: By the path of a list: the positions of those of its layers that share a class.
    """
    held = (InputKind.ARGUMENT, InputKind.SIZE)
    targets = [
        entry.target for entry in graph.inputs if entry.kind not in held and not is_in_state_dict(entry)
    ]
    values = {target: graph.constants[target] for target in targets}
    contents = {target: _content(value, target) for target, value in values.items()}
    places = {target: _place(target, layers) for target in values}
    kinds: dict[ByLayer, set[object]] = {}
    for target, place in places.items():
        if place is not None:
            kinds.setdefault(place, set()).add(contents[target])
    sources: dict[str, str | ByLayer] = {}
    stored: dict[str, torch.Tensor] = {}
    entries: dict[object, str] = {}
    for target, value in values.items():
        place = places[target]
        if place is not None and len(kinds[place]) > 1:
            sources[target], stored[target] = place, value
            continue
        literal = literal_of(value)
        if literal is None:
            entry = entries.setdefault(contents[target], target)
            stored.setdefault(entry, value)
        sources[target] = literal or f"constants[{python_string(entry)}]"
    return HeldValues(sources, stored)


def _place(target: str, layers: Mapping[str, frozenset[int]]) -> ByLayer | None:
    """Where in a layer a tensor is held, if the layer shares its class."""
    for owner, positions in layers.items():
        position, _, below = target.removeprefix(f"{owner}.").partition(".")
        if target.startswith(f"{owner}.") and below and position.isdigit() and int(position) in positions:
            return ByLayer(owner, below)
    return None


def _content(value: torch.Tensor, target: str) -> object:
    """What two tensors have in common whose values are the same, bit by bit."""
    if value.layout is not torch.strided or value.is_quantized:
        return target
    plain = value.detach().cpu().contiguous().reshape(-1)
    return value.dtype, tuple(value.shape), plain.view(torch.uint8).numpy().tobytes()
