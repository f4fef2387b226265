"""Graphs and breaks of one call: of longhand's own capture (graphs run by PyTorch), and of torch's Dynamo."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch._dynamo

from benchmarks.architectures.calls import agree, tensors
from benchmarks.architectures.example import Example
from benchmarks.architectures.rows import Result, Verdict
from longhand.capture.bytecode.entry.entries import Capture, Event, EventKind, forget_all


def longhand_counts(example: Example, *, train: bool) -> Result:
    """Two calls through longhand's capture, against eager; with gradients where they are trained. As of Dynamo's, the
    graphs of the first are counted: what draws from Python's random meets other sizes in the second."""
    module, args, kwargs = example
    events: list[Event] = []
    capture = Capture(lambda graph, _: graph.forward, listener=events.append)
    forget_all()
    with torch.set_grad_enabled(train):
        torch.manual_seed(0)
        expected = tensors(module(*args, **kwargs))
        actual = []
        n_events = []
        for _ in range(2):
            torch.manual_seed(0)
            actual.append(tensors(capture.call(module, args, kwargs)))
            n_events.append(len(events))
    forget_all()
    first = events[: n_events[0]]
    breaks = _causes((event.record.where, event.record.reason) for event in first if event.record)
    n_graphs = sum(event.kind is EventKind.GRAPH for event in first)
    numbers = {"graphs": n_graphs, "breaks": breaks}
    for found in actual:
        if note := agree(found, expected):
            return Result(Verdict.WRONG, note, numbers)
    if not n_graphs:
        return Result(Verdict.EAGER, "no graph", numbers)
    return Result(Verdict.RIGHT, "", numbers)


def dynamo_counts(example: Example, *, train: bool) -> Result:
    """torch._dynamo.explain of the same call."""
    module, args, kwargs = example
    torch.compiler.reset()
    torch.manual_seed(0)
    with torch.set_grad_enabled(train):
        found = torch._dynamo.explain(module)(*args, **kwargs)
    torch.compiler.reset()
    places = [
        (
            f"{one.user_stack[-1].filename}:{one.user_stack[-1].lineno}" if one.user_stack else "",
            str(one.reason),
        )
        for one in found.break_reasons
        if one.graph_break
    ]
    return Result(Verdict.RIGHT, "", {"graphs": found.graph_count, "breaks": _causes(places)})


def _causes(places: Iterable[tuple[str, str]]) -> list[str]:
    """``modeling_x.py: reason``, each once, without lines and messages that differ between runs."""
    found: dict[str, None] = {}
    for where, reason in places:
        first = next((line.strip() for line in reason.splitlines() if line.strip()), "")
        file = os.path.basename(where.rpartition(":")[0])
        found[f"{file}: {first}" if file else first] = None
    return list(found)
