"""What the backward pass reads of the forward pass, layer by layer: records of what was made, and weights in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from longhand.capture.graph import CapturedGraph, InputKind, TrainingGraphs
from longhand.emit.layers.saved_records import Record, shape_of
from longhand.schedule.named_plan import SAVED, DimNamer, Loop, SavedLayers
from longhand.schedule.plan import UnitPlan


@dataclasses.dataclass(frozen=True)
class LayersApart:
    """What the backward pass keeps apart for each layer of a loop.

    Attributes:
        word: The list that holds it, in the order of the layers: ``blocks``.
        own: For each layer, first to last: placeholders of the backward graph.
        record: What the layers save as a record of their own.
        name: The class of what one layer has.
        fields: Its fields.
        owner: Whose it is: the path of a list of layers, or empty.
        function: What reads it, where that is no list's.
    """

    word: str
    own: tuple[tuple[str, ...], ...]
    record: SavedLayers | None
    name: str
    fields: tuple[str, ...]
    owner: str = ""
    function: str = ""

    @property
    def taken(self) -> str:
        """That of the next layer, from the last one on."""
        return f"{SAVED}.{self.word}.pop()"

    def as_record(self, plan: UnitPlan, dims: DimNamer) -> Record:
        """The record of what each layer has, or each call of a function.

        Args:
            plan: Of the backward pass.
            dims: Words for its dimensions.
        """
        record = self.record
        paths = ("",) * len(self.fields)
        if record is not None:
            paths = tuple(record.paths[place] for place in record.made)
        columns = zip(*(self.own if record is None else self.own[:1]), strict=True)
        said = [
            path or shape_of(nodes, plan.buffers, dims) for path, nodes in zip(paths, columns, strict=True)
        ]
        return Record(self.name, self.owner, self.function, tuple(zip(self.fields, said, strict=True)))


def paths_of_weights(training: TrainingGraphs, forward: CapturedGraph) -> dict[str, str]:
    """By placeholder: the path of the parameter that it is, which is read where the module has it.

    Args:
        training: Both graphs.
        forward: What was captured.
    """
    if not forward.is_module:
        return {}
    given = {entry.node: entry for entry in forward.inputs if entry.kind is InputKind.PARAMETER}
    sources = ((entry.node, given.get(str(entry.source))) for entry in training.inputs)
    return {node: parameter.target for node, parameter in sources if parameter is not None}


def weights_inside(loop: Loop, weights: Mapping[str, str]) -> dict[int, str]:
    """Which of what each layer reads are weights of its own, by their paths inside the layer.

    Args:
        loop: Of the backward pass.
        weights: By placeholder: the path of a parameter.
    """
    inside: dict[int, str] = {}
    for place, nodes in enumerate(zip(*loop.own, strict=True)):
        heads = [f"{loop.owner}.{position}." for position in loop.positions]
        paths = [weights.get(node, "") for node in nodes]
        below = {path.removeprefix(head) for path, head in zip(paths, heads, strict=True)}
        are_own = all(path.startswith(head) for path, head in zip(paths, heads, strict=True))
        if are_own and len(below) == 1:
            inside[place] = below.pop()
    return inside
