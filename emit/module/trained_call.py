"""What model.py and backward.py of a unit for training agree on."""

from __future__ import annotations

import dataclasses

from longhand.emit.layers.saved_call import SavedOfCall, Source
from longhand.schedule.named_plan import SavedLayers


@dataclasses.dataclass(frozen=True)
class TrainedCall:
    """How the forward pass is called for its gradients.

    Attributes:
        function: The autograd.Function in backward.py.
        launched: Positions among the plan's results that launch() returns: tensors, the user's.
        records: What each list of layers saves as records that its layers make.
        allowed: Placeholders of the forward that may require grad: they did when it was captured.
        frozen: Placeholders of parameters that may not: their gradients would be missing.
        forward: The function in backward.py that a recording of the forward pass runs.
        differentiate: That of the backward pass.
        records_backward: Whether a CUDA graph can hold the backward pass.
        saved: What launch() returns after the results; None where the backward pass reads nothing.
    """

    function: str
    launched: tuple[int, ...]
    records: tuple[SavedLayers, ...]
    allowed: frozenset[str]
    frozen: tuple[str, ...]
    forward: str = ""
    differentiate: str = ""
    records_backward: bool = False
    saved: SavedOfCall | None = None

    @property
    def in_records(self) -> frozenset[int]:
        """Positions among the plan's results of what launch() returns in records only."""
        return frozenset(place for record in self.records for place in record.places)

    @property
    def named(self) -> list[Source]:
        """All that launch() returns or saves by its name, the user's results first."""
        saved = self.saved.sources if self.saved is not None else frozenset[Source]()
        return [*dict.fromkeys((*self.launched, *sorted(saved, key=str)))]

    @property
    def classes(self) -> frozenset[str]:
        """What model.py names of backward.py: the Function, and records."""
        of_call = (self.saved.name, *(one.name for one in self.saved.of_each)) if self.saved else ()
        of_call += tuple(self.saved.made_by_calls) if self.saved else ()
        return frozenset((self.function, *of_call, *(record.class_name for record in self.records)))

    @property
    def runtime_names(self) -> frozenset[str]:
        """What launch() needs of runtime.py for that."""
        return frozenset({"one_for_each"} if self.saved is not None and self.saved.of_each else ())
