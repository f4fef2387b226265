"""Runs a call once, on copies and with its graphs in eager, to learn where it breaks and why."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import BreakRecord
from longhand.capture.bytecode.entry.entries import Capture, Event

__all__ = ["Survey", "survey"]


@dataclasses.dataclass(frozen=True)
class Survey:
    """What a run met.

    Attributes:
        breaks: Graph breaks and frames that are CPython's, in order.
        n_graphs: Graphs that were captured.
    """

    breaks: tuple[BreakRecord, ...]
    n_graphs: int


def survey(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, train: bool = False
) -> Survey | None:
    """Runs ``model(*args, **kwargs)`` on copies; None where they cannot be copied or the call raises."""
    events: list[Event] = []
    capture = Capture(lambda module, _: module.forward, listener=events.append)
    try:
        model, args, kwargs = copy.deepcopy((model, args, kwargs))
        with torch.set_grad_enabled(train):
            capture.call(model, args, kwargs)
    except Exception:  # whatever the user's code raises: the breaks up to there count
        if not any(event.record for event in events):
            return None
    breaks = dict.fromkeys(event.record for event in events if event.record is not None)
    return Survey(tuple(breaks), sum(bool(event.guards) for event in events))
