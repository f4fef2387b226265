"""What the backward pass reads of the forward pass, layer by layer: records of what was made, and weights in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.capture.graph import TrainingGraphs
from longhand.emit.layers.call_records import RecordOfCall
from longhand.emit.layers.class_names import record_name
from longhand.emit.layers.saved_call import SavedOfCall, SavedOfEach
from longhand.emit.layers.saved_records import Record, shapes_of
from longhand.emit.module.module_tree import ModuleTree, member, module_expression
from longhand.schedule.named_plan import (
    SAVED,
    DimNamer,
    LayerNames,
    Loop,
    SavedLayers,
    weights_inside,
)
from longhand.schedule.plan import UnitPlan

MODEL = "model"  # what the functions call the module


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
    def is_kept(self) -> bool:
        """Whether there is such a list."""
        return self.record is not None or bool(self.fields)

    @property
    def taken(self) -> str:
        """That of the next layer, from the last one on."""
        return f"{SAVED}.{self.word}.pop()"


def records_of_layers(layers: Sequence[LayersApart], plan: UnitPlan, dims: DimNamer) -> list[Record]:
    """The records of what each layer has, or each call of a function: of several lists one, if they are of one class.

    Args:
        layers: Of all lists.
        plan: Of the backward pass.
        dims: Words for its dimensions.
    """
    by_class: dict[str, list[LayersApart]] = {}
    for one in layers:
        by_class.setdefault(one.name, []).append(one)
    records = []
    for name, alike in by_class.items():
        record, fields = alike[0].record, alike[0].fields
        paths = ("",) * len(fields)
        if record is not None:
            paths = tuple(record.paths[place] for place in record.made)
        columns = [*zip(*(nodes for one in alike for nodes in one.own), strict=True)]
        shapes = shapes_of(columns, plan.buffers, dims)
        said = [path or shape for path, shape in zip(paths, shapes, strict=True)]
        owner = " or ".join(dict.fromkeys(one.owner for one in alike))
        records.append(Record(name, owner, alike[0].function, tuple(zip(fields, said, strict=True))))
    return records


def layers_of(
    loop: Loop, words: LayerNames, weights: Mapping[str, str], record_names: set[str]
) -> LayersApart:
    """The loop runs from the last layer to the first: its runs, reversed, are in the order of the layers.

    Args:
        loop: Of the backward pass.
        words: Its words.
        weights: By placeholder: the path of a parameter.
        record_names: Classes of records: that of these layers is added.
    """
    record = words.record
    if record is None:
        inside = weights_inside(loop, weights)
        places = [place for place in range(len(loop.own[0])) if place not in inside]
        own = tuple(tuple(nodes[place] for place in places) for nodes in loop.own[::-1])
        name = record_name(loop.class_name, record_names, loop.owner) if places else ""
        record_names.add(name)
        fields = tuple(words.variables[node] for node in own[-1])
        return LayersApart(words.word, own, None, name, fields, loop.owner)
    nodes = (record.nodes[position] for position in loop.positions[::-1])
    own = tuple(tuple(each[place] for place in record.made) for each in nodes)
    fields = tuple(record.fields[place] for place in record.made)
    return LayersApart(words.word, own, record, record.class_name, fields, record.owner)


def list_of_modules(loop: Loop, weights: Mapping[str, str], tree: ModuleTree) -> str:
    """The list that holds the layers, where their weights are read; or else nothing.

    Args:
        loop: Of the backward pass.
        weights: By placeholder: the path of a parameter.
        tree: Of the forward pass's modules.
    """
    is_read = bool(weights_inside(loop, weights))
    return member(module_expression(tree.root, loop.owner), MODEL) if is_read else ""


def saved_of_call(
    name: str,
    training: TrainingGraphs,
    fields: Mapping[str, str],
    layers: Sequence[LayersApart],
    calls: Sequence[RecordOfCall],
) -> SavedOfCall:
    """The record that launch() makes.

    Args:
        name: Its class.
        training: Both graphs.
        fields: By placeholder: the field that it is.
        layers: What each layer, or call of a function, has.
        calls: The records that calls in the forward pass make.
    """
    sources = {entry.node: entry.source for entry in training.inputs}
    of_each = tuple(
        SavedOfEach(
            one.word,
            one.name,
            one.fields,
            tuple(tuple(sources[node] for node in nodes) for nodes in zip(*one.own, strict=True)),
        )
        for one in layers
        if one.record is None
    )
    return SavedOfCall(
        name,
        tuple((word, sources[node]) for node, word in fields.items()),
        tuple((one.word, _read_of(one.record)) for one in layers if one.record is not None),
        of_each,
        tuple((one.word, one.record.variable) for one in calls if one.word),
        frozenset(one.record.class_name for one in calls),
    )


def whole_record(
    name: str,
    function: str,
    fields: Mapping[str, str],
    layers: Sequence[LayersApart],
    calls: Sequence[RecordOfCall],
    plan: UnitPlan,
    dims: DimNamer,
) -> Record:
    """The record of the whole call, which holds the others.

    Args:
        name: Its class.
        function: What reads it.
        fields: By placeholder: the field that it is.
        layers: What each layer, or call of a function, has.
        calls: The records that calls in the forward pass make.
        plan: Of the backward pass.
        dims: Words for its dimensions.
    """
    shapes = shapes_of([[node] for node in fields], plan.buffers, dims)
    records = tuple((one.word, one.record.class_name) for one in calls if one.word)
    lists = tuple((one.word, one.name) for one in layers)
    return Record(
        name, "", function, tuple(zip(fields.values(), shapes, strict=True)), lists, records=records
    )


def _read_of(record: SavedLayers) -> str:
    """The list of records; without those of layers that the backward function writes out."""
    if record.in_loop is None:
        return record.word
    begin, end = record.in_loop
    stop = "" if end == len(record.buffers) else end
    return f"{record.word}[{begin or ''}:{stop}]"
