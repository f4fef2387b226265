"""Records that calls of shared functions make in launch(): fields of the record of the whole call, as they are.

saved = VideoResNetSaved(x=x, layer2_1=saved_layer2_1), of which the backward pass reads ``saved.layer2_1.conv1_out``.

That is so where the backward pass reads each of its fields by itself. What it takes from a list, or in another view,
goes there tensor by tensor; and so does what a layer's method keeps, in the layer's record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from longhand.capture.graph import TrainingGraphs
from longhand.emit.layers.saved_records import Record, shapes_of
from longhand.lower.ir import View
from longhand.schedule.named_plan import SAVED, CallRecord, DimNamer, Reached, SharedCall, fields_reached
from longhand.schedule.names.words import identifier
from longhand.schedule.plan import UnitPlan


@dataclasses.dataclass(frozen=True)
class RecordOfCall:
    """The record of one call, with what the backward pass has in the place of its fields.

    Attributes:
        record: It.
        word: The field of the whole call's record that it is; empty where its fields are fields of that.
        nodes: For each field: the placeholders of the backward graph that it is.
        records: (field, the record that it is).
    """

    record: CallRecord
    word: str
    nodes: tuple[tuple[str, ...], ...]
    records: tuple[tuple[str, RecordOfCall], ...] = ()

    @property
    def reached(self) -> str:
        """How the backward pass reaches it."""
        return Reached.field_of(SAVED, self.word)

    @property
    def variables(self) -> dict[str, str]:
        """By placeholder: how the backward pass reaches it."""
        return self._variables_by(self.reached) if self.word else {}

    @property
    def paths(self) -> dict[str, str]:
        """By placeholder that the backward pass has in it: the module whose call keeps it."""
        own = {node: self.record.path for nodes in self.nodes for node in nodes}
        return own | {node: path for _, one in self.records for node, path in one.paths.items()}

    def is_read(self, read: Collection[str]) -> bool:
        """Whether each of its fields is one of these placeholders."""
        own = all(nodes and set(nodes) <= set(read) for nodes in self.nodes)
        return own and all(one.is_read(read) for _, one in self.records)

    def _variables_by(self, reached: str) -> dict[str, str]:
        pairs = zip(self.record.fields, self.nodes, strict=True)
        own: dict[str, str] = {
            node: Reached.field_of(reached, field) for field, nodes in pairs for node in nodes
        }
        for field, one in self.records:
            own |= one._variables_by(Reached.field_of(reached, field))
        return own


def records_of_calls(calls: Mapping[int, SharedCall]) -> list[CallRecord]:
    """Those that launch() and the methods of layers hold, and before each those that are fields of it."""
    return [one for call in calls.values() for one in (*call.inner, call.record) if one is not None]


def reached_in_records(calls: Mapping[int, SharedCall], root: str = "") -> dict[str, str]:
    """By buffer: how a function reaches what such a record holds.

    Args:
        calls: All of the file's.
        root: The layer whose method the function is; empty for launch().
    """
    return fields_reached(record for record in records_of_calls(calls) if record.root == root)


def as_fields(
    records: Sequence[CallRecord],
    training: TrainingGraphs,
    forward: UnitPlan,
    read: Collection[str],
    taken: Collection[str],
) -> list[RecordOfCall]:
    """The records, with what the backward pass has in their place.

    Args:
        records: Of the calls.
        training: Both graphs.
        forward: The forward pass's plan.
        read: The placeholders that the backward pass's own function reads one by one.
        taken: Words that no field may have.
    """
    nodes_of: dict[str, list[str]] = {}  # by buffer of the forward pass
    in_views: set[str] = set()
    nodes = {entry.source: entry.node for entry in training.inputs}
    for place, result in enumerate(forward.results):
        if isinstance(result, View) and place in nodes:
            nodes_of.setdefault(result.buffer, []).append(nodes[place])
            in_views |= {result.buffer} if result.calls else set()
    used = {*taken}
    told: list[RecordOfCall] = []
    for record in records:
        one = _with_nodes(record, nodes_of)
        is_whole = not record.root and in_views.isdisjoint(record.all_buffers) and one.is_read(read)
        words = (record.field, identifier(record.path), record.variable)
        free = (word for word in words if word not in used)
        word = next(free, "") if is_whole else ""
        used.add(word)
        told.append(dataclasses.replace(one, word=word))
    return told


def _with_nodes(record: CallRecord, nodes_of: Mapping[str, Sequence[str]]) -> RecordOfCall:
    nodes = tuple(tuple(nodes_of.get(buffer, ())) for buffer in record.buffers)
    inside = tuple((field, _with_nodes(one, nodes_of)) for field, one in record.records)
    return RecordOfCall(record, "", nodes, inside)


def classes_of_records(
    records: Sequence[RecordOfCall], plan: UnitPlan, dims: DimNamer, of_all: Mapping[str, str]
) -> Iterator[Record]:
    """The class of each, once.

    Args:
        records: Of all calls.
        plan: Of the backward pass.
        dims: Words for its dimensions.
        of_all: By the path of a layer from which the function of all is written: that of their list.
    """
    for name in dict.fromkeys(one.record.class_name for one in records):
        some = [one for one in records if one.record.class_name == name]
        columns = [
            [nodes[0] for nodes in of if nodes] for of in zip(*(one.nodes for one in some), strict=True)
        ]
        shapes = shapes_of(columns, plan.buffers, dims)
        fields = tuple(zip(some[0].record.fields, shapes, strict=True))
        inside = tuple((field, of.record.class_name) for field, of in some[0].records)
        modules = tuple(_path_in_all(one.record, of_all) for one in some)
        yield Record(name, "", "", fields, modules=modules, records=inside)


def _path_in_all(record: CallRecord, of_all: Mapping[str, str]) -> str:
    """The module's path; ``blocks.[i].attn`` where each layer's function keeps such a record."""
    owner = of_all.get(record.root)
    return record.path if owner is None else f"{owner}.[i]{record.path.removeprefix(record.root)}"
