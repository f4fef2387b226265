"""What each layer of a list saves for its backward pass: a record with the same fields for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

SAVED = "saved"  # the variable of what one layer saves for its backward pass


@dataclasses.dataclass(frozen=True)
class SavedLayers:
    """What each layer of a list saves for its backward pass: a record with the same fields for all of them.

    Attributes:
        owner: The path of the list: ``gpt.blocks``.
        word: The variable of the list of records, in the order in which they run: ``saved_blocks``.
        class_name: The record: ``BlockSaved``.
        fields: Its fields.
        buffers: By the layer's position: the forward's buffer for each field, a weight or something that it made.
        nodes: By the layer's position: the backward's placeholder for each field.
        paths: For each field: the path inside the layer of the weight that it is; empty for what the layer made.
        places: Positions among the forward's results of what only these records need.
    """

    owner: str
    word: str
    class_name: str
    fields: tuple[str, ...]
    paths: tuple[str, ...]
    buffers: Mapping[int, tuple[str, ...]]
    nodes: Mapping[int, tuple[str, ...]]
    places: frozenset[int]
