"""What model.py and backward.py of a unit for training agree on."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class TrainedCall:
    """How the forward pass is called for its gradients.

    Attributes:
        function: The autograd.Function in backward.py.
        launched: Positions among the plan's results that launch() returns: tensors, first the user's.
        gradients: Placeholders of the forward whose gradients are computed.
        frozen: Placeholders of parameters whose gradients are not.
    """

    function: str
    launched: tuple[int, ...]
    gradients: frozenset[str]
    frozen: tuple[str, ...]
