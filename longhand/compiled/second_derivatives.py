"""A second derivative, which no unit has: calls after it run in eager, until one is differentiated only once.

Whether a call is differentiated twice is known only in its backward pass, when its forward pass has run: so the
unit's backward refuses the first time, and eager's results tell by their hooks what becomes of them. Who asks again
afterwards alternates between both, and stays in eager.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.errors import EagerWarning

__all__ = ["AGAIN", "REASON", "SecondDerivatives"]

REASON = "a second derivative was asked of the call before"
AGAIN = "second derivatives are asked of it again and again"
NOTE = "longhand: later calls run in eager, until one of them is differentiated once."


class SecondDerivatives:
    """Whether second derivatives are asked of the calls of a unit.

    Attributes:
        refused: How many calls have asked in vain.
        is_expected: Whether the next call runs in eager.
    """

    def __init__(self) -> None:
        self.refused = 0
        self.is_expected = False

    def refuse(self, error: BaseException) -> None:
        """Notes that a backward pass raised since a second derivative was asked for."""
        self.refused += 1
        self.is_expected = True
        error.add_note(NOTE)
        if self.refused == 1:
            text = f"longhand: {error}. Calls of its graph run in eager until one is differentiated once."
            warnings.warn(text, EagerWarning, stacklevel=3)

    def watched(self, results: Any) -> Any:
        """The results of a call in eager, whose backward pass tells whether a second one is to follow it."""
        call = _DifferentiatedCall(self)
        for leaf in pytree.tree_leaves(results):
            if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
                leaf.register_hook(functools.partial(_see, call))
        return results


class _DifferentiatedCall:
    def __init__(self, owner: SecondDerivatives) -> None:
        self.owner = owner
        self.is_differentiated_twice = False


@torch.compiler.disable
def _see(call: _DifferentiatedCall, _: torch.Tensor) -> None:
    if torch.is_grad_enabled():  # create_graph=True
        call.is_differentiated_twice = True
    elif not call.is_differentiated_twice:  # a penalty's own backward pass comes through here, too
        call.owner.is_expected = False
