"""`longhand.explain(fn)(*args)`: which graphs a call becomes, where it breaks and why, what runs as which kernel."""

from __future__ import annotations

import dataclasses
import functools
import linecache
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.bytecode.entry.entries import Event, forget_all
from longhand.capture.facts import facts_of
from longhand.capture.torch_dynamo import reasons_of_breaks
from longhand.compiled.backend import GraphReport, longhand_backend
from longhand.compiled.from_bytecode import captured, default_frontend, log_event
from longhand.errors import OptionError
from longhand.options import Frontend, parse_enum
from longhand.targets import refuse_exported
from longhand.telling.explanation_picture import (
    TreeLine,
    bytes_text,
    kernel_bytes,
    kernels_in,
    tree_html,
    tree_text,
)

__all__ = ["Break", "Explanation", "explain"]


@dataclasses.dataclass(frozen=True)
class Break:
    """Why and where the code was cut.

    Attributes:
        reason: On one line.
        where: ``file:line`` of the user's code.
        statement: The user's line.
        hint: What to do about it.
    """

    reason: str
    where: str
    statement: str = ""
    hint: str | None = None


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """What one call becomes.

    Attributes:
        graphs: One report for each graph, in the order of compilation.
        breaks: Why and where the code was cut.
        guards: For each graph what must hold for it to run, in the order of the checks; only with the bytecode
            frontend.
    """

    graphs: tuple[GraphReport, ...]
    breaks: tuple[Break, ...]
    guards: tuple[tuple[str, ...], ...] = ()

    def __repr__(self) -> str:
        counts = f"{_counted(len(self.graphs), 'graph')}, {_counted(len(self.breaks), 'break')}"
        return f"<Explanation {counts}; print it for more>"

    def __str__(self) -> str:
        return tree_text(self._title, self._branches)

    def _repr_html_(self) -> str:
        return tree_html(self._title, self._branches)

    @property
    def _title(self) -> str:
        return f"{_counted(len(self.graphs), 'graph')}, {_counted(len(self.breaks), 'break')}"

    @property
    def _branches(self) -> list[TreeLine]:
        """Graphs and breaks in turn, as they came."""
        branches: list[TreeLine] = []
        breaks = list(self.breaks)
        for number, graph in enumerate(self.graphs):
            guards = self.guards[number] if number < len(self.guards) else None
            branches.append(_graph(number + 1, graph, guards))
            branches += [_break(breaks.pop(0))] if breaks else []
        return branches + [_break(broken) for broken in breaks]


def _graph(number: int, graph: GraphReport, guards: tuple[str, ...] | None) -> TreeLine:
    """A graph: what became of it, its kernels, what it relies on."""
    more = [str(graph.folder)] if graph.folder is not None and graph.reason is None else []
    more += [graph.note] if graph.note else []
    more += [str(graph.calls)] if graph.calls is not None else []
    branches = list(kernels_in(graph.folder)) if graph.reason is None else []
    if graph.summary is not None:
        branches += [
            TreeLine(f"{call.target} x{call.count}: {call.reason}") for call in graph.summary.fallbacks
        ]
        more += graph.summary.report.splitlines()
    if guards is not None:
        facts = tuple(facts_of(guards))
        of_values = "; of values read:" if facts else ""
        branches.append(TreeLine(f"{_counted(len(guards), 'guard')}{of_values}", facts))
    return TreeLine(f"graph {number}: {graph.n_ops} ops, {_outcome(graph)}", tuple(more), tuple(branches))


def _break(broken: Break) -> TreeLine:
    more = [broken.statement, *([broken.hint] if broken.hint else [])]
    return TreeLine(f"break at {broken.where}: {broken.reason}", tuple(filter(None, more)))


def _outcome(graph: GraphReport) -> str:
    if graph.reason is not None:
        return f"runs in eager: {graph.reason}"
    n_bytes = kernel_bytes(graph.folder)
    moved = f", kernels move {bytes_text(n_bytes)}" if n_bytes else ""
    if graph.summary is None:
        return f"in the cache{moved}"
    made = graph.summary
    n_calls = sum(call.count for call in made.library_calls)
    return (
        f"{_counted(made.n_kernels, 'kernel')} launched {_counted(made.n_launches, 'time')}, "
        f"{_counted(n_calls, 'library call')}{moved}"
    )


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def explain(
    fn: Callable[..., Any], *, mode: str = "default", frontend: str | None = None
) -> Callable[..., Explanation]:
    """A function that takes the arguments of a call, runs it, and tells what it became.

    Args:
        fn: A function or module.
        mode: As in torch.compile.
        frontend: ``bytecode`` or ``dynamo``, whose explainer runs the call twice. By default the one with which
            `longhand.compile` captures the function.

    Raises:
        OptionError: An unknown mode or frontend, or an exported program, which is no callable.
    """
    refuse_exported(fn)
    captured_by = default_frontend(fn) if frontend is None else parse_enum(Frontend, frontend, "The frontend")
    if captured_by in (Frontend.EXPORT, Frontend.UNCOMPILED):
        raise OptionError(f"{captured_by.value} makes one graph or none.", hint="Use frontend='bytecode'.")
    through = _through_bytecode if captured_by is Frontend.BYTECODE else _through_dynamo

    @functools.wraps(fn)
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        return through(fn, mode, args, kwargs)

    return explained


def _through_bytecode(
    fn: Callable[..., Any], mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Explanation:
    forget_all()  # so that nothing of it is there already
    reports: list[GraphReport] = []
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        log_event(event)

    compiled = captured(fn, mode=mode, report=reports.append, listener=listen)
    compiled(*args, **kwargs)
    forget_all()
    records = dict.fromkeys(event.record for event in events if event.record is not None)
    breaks = tuple(Break(record.reason, record.where, _line(record.where), record.hint) for record in records)
    graphs = [event for event in events if event.guards]
    return Explanation(tuple(reports), breaks, tuple(event.guards for event in graphs))


def _line(where: str) -> str:
    file, _, line = where.rpartition(":")
    return linecache.getline(file, int(line)).strip() if line.isdigit() else ""


def _through_dynamo(
    fn: Callable[..., Any], mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Explanation:
    reasons = reasons_of_breaks(fn, args, kwargs)
    torch.compiler.reset()
    reports: list[GraphReport] = []
    backend = functools.partial(longhand_backend, mode=mode, report=reports.append)
    torch.compile(fn, backend=backend)(*args, **kwargs)
    torch.compiler.reset()
    breaks = tuple(Break(broken.reason, broken.where, broken.statement) for broken in reasons)
    return Explanation(tuple(reports), breaks)
