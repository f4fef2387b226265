"""What each layer of a list saves for its backward pass: a record with the same fields for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

SAVED = "saved"  # the variable of what one layer, or the whole call, saves for its backward pass


@dataclasses.dataclass(frozen=True)
class SavedLayers:
    """What each layer of a list saves for its backward pass: a record with the same fields for all of them.

    Attributes:
        owner: The path of the list: ``gpt.blocks``.
        word: The variable of the list of records, in the order in which they run: ``saved_blocks``.
        class_name: The record: ``BlockSaved``.
        fields: Its fields, and a word for each weight that is read beside them.
        buffers: By the layer's position: the forward's buffer for each field, a weight or something that it made.
        nodes: By the layer's position: the backward's placeholder for each field.
        paths: For each field: the path inside the layer of the weight that it is; empty for what the layer made.
        are_weights: For each field: whether it is a parameter of the layer, which is read where the layer has it.
        places: Positions among the forward's results of what only these records need.
    """

    owner: str
    word: str
    class_name: str
    fields: tuple[str, ...]
    paths: tuple[str, ...]
    buffers: Mapping[int, tuple[str, ...]]
    nodes: Mapping[int, tuple[str, ...]]
    are_weights: tuple[bool, ...]
    places: frozenset[int]

    @property
    def made(self) -> tuple[int, ...]:
        """Which of the fields the record holds: all but weights."""
        return tuple(place for place, is_weight in enumerate(self.are_weights) if not is_weight)


def saved_before(
    record: SavedLayers | None,
    fields: Sequence[str],
    position: int,
    known: Mapping[str, str],
    before: Collection[str],
) -> dict[str, str] | None:
    """What the layer before a loop saves of what it made before the steps that it shares, by the loop's own buffers.

    None if it does not save what the loop's layers do.

    Args:
        record: Of the loop.
        fields: The loop's own buffer for each of its fields.
        position: Of the layer before the loop.
        known: For buffers of the loop's layer those in their place.
        before: What a layer of the loop has at hand where the shared steps begin.
    """
    if record is None:
        return {}
    if position not in record.buffers:
        return None
    saved: dict[str, str] = {}
    for name, of in zip(fields, record.buffers[position], strict=True):
        if name not in known and name in before:
            saved[name] = of
        elif known.get(name) != of:
            return None
    return saved


def unread_endings(paths: Sequence[str], read: Collection[str]) -> tuple[str, ...]:
    """How the names of the parameters end that a backward pass does not read, ``.bias``, and those of no other.

    Args:
        paths: Of all parameters; ``model.`` before them tells whole names from endings.
        read: Of those that it reads.
    """
    endings: list[str] = []
    of_read = [f"model.{path}" for path in read]
    for path in paths:
        if path in read or f"model.{path}".endswith(tuple(endings)):
            continue
        parts = path.split(".")
        candidates = [f".{'.'.join(parts[-n:])}" for n in range(1, len(parts) + 1)]
        candidates.append(f"model.{path}")
        endings.append(
            next(one for one in candidates if not any(map(str.endswith, of_read, [one] * len(of_read))))
        )
    return tuple(endings)
