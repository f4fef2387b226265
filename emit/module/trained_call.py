"""What model.py and backward.py of a unit for training agree on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

SAVED = "saved"  # the variable of what one layer saves for its backward pass


@dataclasses.dataclass(frozen=True)
class SavedLayers:
    """What each layer of a list saves for its backward pass: a record with the same fields for all of them.

    Attributes:
        owner: The path of the list: ``gpt.blocks``.
        word: The variable of the list of records, in the order of the layers: ``saved_blocks``.
        class_name: The record: ``BlockSaved``.
        fields: Its fields.
        buffers: By the layer's position: the forward's buffer for each field, a weight or something that it made.
        nodes: By the layer's position: the backward's placeholder for each field.
        places: Positions among the forward's results of what only these records need.
    """

    owner: str
    word: str
    class_name: str
    fields: tuple[str, ...]
    buffers: Mapping[int, tuple[str, ...]]
    nodes: Mapping[int, tuple[str, ...]]
    places: frozenset[int]


@dataclasses.dataclass(frozen=True)
class TrainedCall:
    """How the forward pass is called for its gradients.

    Attributes:
        function: The autograd.Function in backward.py.
        launched: Positions among the plan's results that launch() returns: tensors, first the user's.
        records: What it returns after these, for each list of layers.
        allowed: Placeholders of the forward that may require grad: they did when it was captured.
        frozen: Placeholders of parameters that may not: their gradients would be missing.
        forward: The function in backward.py that a recording of the forward pass runs.
        backward: That of the backward pass.
        records_backward: Whether a CUDA graph can hold the backward pass.
    """

    function: str
    launched: tuple[int, ...]
    records: tuple[SavedLayers, ...]
    allowed: frozenset[str]
    frozen: tuple[str, ...]
    forward: str = ""
    backward: str = ""
    records_backward: bool = False

    @property
    def in_records(self) -> frozenset[int]:
        """Positions among the plan's results of what launch() returns in records only."""
        return frozenset(place for record in self.records for place in record.places)


_ENTRY = re.compile(r"(\w+)\[(\d+)\]")


def launched_words(results: Sequence[str], saved: Sequence[str]) -> list[str]:
    """What launch() returns: a list of which every entry is wanted is returned as it is, after all single tensors.

    Args:
        results: The user's results, as expressions; they come first.
        saved: What the backward pass reads, likewise: ``x``, ``qkvs[3]``.
    """
    lists: dict[str, set[int]] = {}
    for text in saved:
        if entry := _ENTRY.fullmatch(text):
            lists.setdefault(entry[1], set()).add(int(entry[2]))
    whole = {
        word for word, entries in lists.items() if entries == set(range(len(entries))) and len(entries) > 1
    }
    singles = [text for text in saved if not ((entry := _ENTRY.fullmatch(text)) and entry[1] in whole)]
    return [*results, *singles, *(word for word in lists if word in whole)]
