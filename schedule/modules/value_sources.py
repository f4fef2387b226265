"""Where the values come from of what a module holds and no state_dict has: equal ones from one place."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from longhand.capture.graph import CapturedGraph, GraphInput, InputKind
from longhand.schedule.modules.held import ByLayer, ValueOf


def is_in_state_dict(entry: GraphInput) -> bool:
    """Whether the original's state_dict has an input that the module holds."""
    return entry.kind is not InputKind.CONSTANT and entry.persistent


def value_sources(graph: CapturedGraph, layers: Mapping[str, frozenset[int]]) -> dict[str, ByLayer | ValueOf]:
    """Where the value of each constant comes from, and of each buffer that is in no state_dict.

    Args:
        graph: What was captured.
        layers: By the path of a list: the positions of those of its layers that share a class.
    """
    targets = [entry.target for entry in graph.inputs if not entry.is_given and not is_in_state_dict(entry)]
    contents = {target: _content(graph.constants[target], target) for target in targets}
    places = {target: _place(target, layers) for target in targets}
    kinds: dict[ByLayer, set[object]] = {}
    for target, place in places.items():
        if place is not None:
            kinds.setdefault(place, set()).add(contents[target])
    sources: dict[str, ByLayer | ValueOf] = {}
    first: dict[object, str] = {}
    for target, place in places.items():
        if place is not None and len(kinds[place]) > 1:
            sources[target] = place
        else:
            sources[target] = ValueOf(first.setdefault(contents[target], target))
    return sources


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
