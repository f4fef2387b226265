"""What model.py and backward.py of a unit for training agree on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from longhand.schedule.named_plan import SavedLayers, entry_of


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


def launched_names(results: Sequence[str], saved: Sequence[str]) -> list[str]:
    """What launch() returns: a list of which every entry is wanted is returned as it is, after all single tensors.

    Args:
        results: The user's results, as expressions; they come first.
        saved: What the backward pass reads, likewise: ``x``, ``qkvs[3]``.
    """
    lists: dict[str, set[int]] = {}
    for text in saved:
        if entry := entry_of(text):
            lists.setdefault(entry[0], set()).add(entry[1])
    whole = {
        word for word, entries in lists.items() if entries == set(range(len(entries))) and len(entries) > 1
    }
    singles = [text for text in saved if not ((entry := entry_of(text)) and entry[0] in whole)]
    return [*results, *singles, *(word for word in lists if word in whole)]
