"""Graphs and breaks of one call: of longhand's own capture (graphs run by PyTorch), and of torch's Dynamo.

Both count the same: graphs with at least one operation, and the distinct lines of the user's code that break one or
leave a whole function to CPython. Dynamo's are those that it logs: `torch._dynamo.explain` leaves out a break before
the first operation and each function that is skipped.

Before torch 2.12, Dynamo answers `torch.compiler.is_exporting()` with True, and so counts another path of a model that
asks it than eager takes: of kornia/canny, a `while_loop` for export.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import logging
import os
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
import torch._dynamo
from torch import nn

from benchmarks.architectures.calls import agree, copied_arguments, tensors
from benchmarks.architectures.example import Example
from benchmarks.architectures.rows import Result, Verdict
from longhand.capture.bytecode.entry.entries import Capture, Event, EventKind, forget_all

_DYNAMO_LOGS = ("torch._dynamo.symbolic_convert.__graph_breaks", "torch._dynamo.convert_frame.__graph_breaks")
_DYNAMO_LEAVES = "torch._dynamo.symbolic_convert"
_DYNAMO_LEFT = (  # what 2.12 and later tell with the break, and what earlier ones tell of the frame
    re.compile(r"frame skipped: (?P<name>\S+) \((?P<file>.+?)(?: line |:)\d+"),
    re.compile(
        r"Skipping frame because there is a graph break .*<FrameSummary file (?P<file>.+), line \d+ in (?P<name>\S+)>",
        re.DOTALL,
    ),
)
_DYNAMO_BREAK = re.compile(r"in user code at (.+:\d+)\nGraph Break Reason: (.*)", re.DOTALL)


def longhand_counts(example: Example, *, train: bool) -> Result:
    """Two calls through longhand's capture, against eager; with gradients where they are trained. As of Dynamo's, the
    graphs of the first are counted: what draws from Python's random meets other sizes in the second.

    A model may ask whether it is compiled, and compute something else then: what torch.compile gives is right, too.
    """
    module, args, kwargs = example
    events: list[Event] = []
    capture = Capture(lambda graph, _: graph.forward, listener=events.append)
    forget_all()
    with torch.set_grad_enabled(train):
        expected = _two_calls(_copy(module), args, kwargs)
        n_before = len(events)
        compiled = functools.partial(_call_captured, capture, _copy(module))
        given = copied_arguments(args, kwargs)  # which a call may write into, for the next one
        actual = [_seeded(compiled, *given)]
        first = events[n_before:]
        actual.append(_seeded(compiled, *given))
    forget_all()
    n_graphs = sum(event.kind is EventKind.GRAPH for event in first)
    numbers = {"graphs": n_graphs, "breaks": _by_place(_breaks(first))}
    if note := _difference(actual, expected):
        torch.compiler.reset()
        with torch.set_grad_enabled(train):
            theirs = _two_calls(torch.compile(_copy(module), backend="eager"), args, kwargs)
        torch.compiler.reset()
        if _difference(actual, theirs):
            return Result(Verdict.WRONG, note, numbers)
    if not n_graphs:
        return Result(Verdict.EAGER, "no graph", numbers)
    return Result(Verdict.RIGHT, "", numbers)


def _call_captured(capture: Capture, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return capture.call(module, args, kwargs)


def _copy(module: nn.Module) -> nn.Module:
    """A copy, where there can be one: a call may change what the next one gives."""
    try:
        return copy.deepcopy(module)
    except Exception:  # it keeps results of an earlier call
        return module


def _two_calls(call: Any, args: Any, kwargs: Any) -> list[list[torch.Tensor]]:
    given = copied_arguments(args, kwargs)  # which a call may write into, for the next one
    return [_seeded(call, *given) for _ in range(2)]


def _seeded(call: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors of a call, with every generator that a model may draw from in one state."""
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    return tensors(call(*args, **kwargs))


def _difference(found: list[list[torch.Tensor]], expected: list[list[torch.Tensor]]) -> str:
    return next((note for pair in zip(found, expected, strict=True) if (note := agree(*pair))), "")


def _breaks(events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    """Places and reasons; a function that is skipped because of a break, which is told just before, is that break."""
    before: EventKind | None = None
    for event in events:
        if event.record and not (event.record.skipped and before is EventKind.BREAK):
            yield event.record.where, event.record.reason
        before = event.kind


def dynamo_counts(example: Example, *, train: bool) -> Result:
    """The same call through torch.compile, with a backend that counts."""
    module, args, kwargs = example
    n_graphs = 0

    def counting(graph: torch.fx.GraphModule, _: list[Any]) -> Any:
        nonlocal n_graphs
        n_graphs += any(node.op.startswith("call") for node in graph.graph.nodes)
        return graph.forward

    torch.compiler.reset()
    torch.manual_seed(0)
    with torch.set_grad_enabled(train), _dynamo_breaks() as (breaks, left):
        torch.compile(module, backend=counting)(*args, **kwargs)
    torch.compiler.reset()
    numbers = {"graphs": n_graphs, "breaks": _by_place(breaks), "left": sorted(set(left))}
    return Result(Verdict.RIGHT, "", numbers)


@contextlib.contextmanager
def _dynamo_breaks() -> Iterator[tuple[list[tuple[str, str]], list[str]]]:
    """Places and reasons of the breaks that Dynamo logs while inside, and the functions that it leaves to CPython."""
    breaks: list[tuple[str, str]] = []
    left: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if match := _DYNAMO_BREAK.search(text):
                breaks.append((match[1], match[2]))
            for pattern in _DYNAMO_LEFT:
                left.extend(_left(one["file"], one["name"]) for one in pattern.finditer(text))

    handler = Handler(logging.DEBUG)
    logs = [logging.getLogger(name) for name in (*_DYNAMO_LOGS, _DYNAMO_LEAVES)]
    before = [(log.level, log.propagate) for log in logs]
    for log in logs:
        log.addHandler(handler)
        log.setLevel(logging.INFO if log.name == _DYNAMO_LEAVES else logging.DEBUG)
        log.propagate = False
    try:
        yield breaks, left
    finally:
        for log, (level, propagate) in zip(logs, before, strict=True):
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate


def _left(file: str, name: str) -> str:
    """``modeling_x.py:forward``, of what Dynamo calls a function's rest, too."""
    rest = re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_\d+", name)
    return f"{os.path.basename(file)}:{rest[1] if rest else name}"


def _by_place(breaks: Iterable[tuple[str, str]]) -> list[str]:
    """``modeling_x.py:12 in forward: reason``, each place once, with the first line of a reason that is no heading."""
    by_place: dict[str, str] = {}
    for where, reason in breaks:
        lines = [line.strip() for line in reason.splitlines() if line.strip()]
        first = next((line for line in lines if not line.endswith(":")), reason.strip())
        by_place.setdefault(
            where, f"{os.path.basename(where)} in {_function_at(where)}: {first}" if where else first
        )
    return list(by_place.values())


def _function_at(where: str) -> str:
    """The innermost function that a line lies in."""
    file, _, line = where.rpartition(":")
    try:
        tree = ast.parse(Path(file).read_text())
    except (OSError, SyntaxError):
        return "?"
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= int(line) <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno).name if around else "?"
