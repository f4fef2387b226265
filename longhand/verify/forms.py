"""The form of what a call returns: which containers hold which, and where a tensor is. A list of one is no tensor."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.schedule.named_plan import children
from longhand.verify.comparison import Comparison

__all__ = ["Watched", "other_form"]


@dataclasses.dataclass
class Watched:
    """Calls a model, and keeps the form of what it returned.

    Attributes:
        run: The model or the unit.
        form: As `_form` writes it; empty before a call.
    """

    run: Callable[..., Any]
    form: str = ""

    @property
    def original(self) -> Callable[..., Any]:
        """Whose parameters the gradients are of."""
        function: Callable[..., Any] = getattr(self.run, "original", self.run)
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns."""
        returned = self.run(*args, **kwargs)
        self.form = _form(returned)
        return returned


def other_form(ours: Watched, eager: Watched) -> Comparison | None:
    """A row that says how the results' forms differ; None where they are one. Both have been called."""
    if ours.form == eager.form:
        return None
    note = f"of another form: expected {eager.form}, got {ours.form}"
    return Comparison("result", math.inf, 0.0, 0.0, note)


def _form(value: Any) -> str:
    """``(tensor, (tensor, value))``: that containers are there, and not of which type."""
    leaves, spec = pytree.tree_flatten(value)
    return _words_of(spec, iter(leaves))


def _words_of(spec: pytree.TreeSpec, leaves: Iterator[Any]) -> str:
    if spec.is_leaf():
        leaf = next(leaves)
        return "tensor" if isinstance(leaf, torch.Tensor) else "None" if leaf is None else "value"
    return f"({', '.join(_words_of(child, leaves) for child in children(spec))})"
