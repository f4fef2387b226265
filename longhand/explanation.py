"""`longhand.explain(fn)(*args)`: which graphs a call becomes, where it breaks and why, what runs as which kernel."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from longhand.backend import GraphReport, longhand_backend
from longhand.capture.torch_dynamo import BreakReason, reasons_of_breaks


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What one call becomes.

    Attributes:
        graphs: One report for each graph, in the order of compilation.
        breaks: Why and where the code was cut.
    """

    graphs: tuple[GraphReport, ...]
    breaks: tuple[BreakReason, ...]

    def __str__(self) -> str:
        n_graphs, n_breaks = len(self.graphs), len(self.breaks)
        lines = [f"{n_graphs} graph{'s' * (n_graphs != 1)}, {n_breaks} break{'s' * (n_breaks != 1)}"]
        for number, graph in enumerate(self.graphs, 1):
            lines.append(f"graph {number}: {graph.n_ops} ops, {_outcome(graph)}")
            if graph.summary is not None:
                lines += [
                    f"    {call.target} x{call.count}: {call.reason}" for call in graph.summary.fallbacks
                ]
        for broken in self.breaks:
            lines += [f"break at {broken.where}: {broken.reason}", f"    {broken.statement}"]
        return "\n".join(lines)


def _outcome(graph: GraphReport) -> str:
    if graph.reason is not None:
        return f"runs in eager: {graph.reason}"
    if graph.summary is None:
        return f"in the cache: {graph.folder}"
    made = graph.summary
    n_calls = sum(call.count for call in made.library_calls)
    return f"{made.n_kernels} kernels launched {made.n_launches} times, {n_calls} library calls: {made.out}"


def explain(fn: Callable[..., Any], *, mode: str = "default") -> Callable[..., Explanation]:
    """A function that takes the arguments of a call, runs it, and tells what it became."""

    @functools.wraps(fn)
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        breaks = reasons_of_breaks(fn, args, kwargs)
        torch.compiler.reset()
        reports: list[GraphReport] = []
        backend = functools.partial(longhand_backend, mode=mode, report=reports.append)
        torch.compile(fn, backend=backend)(*args, **kwargs)
        torch.compiler.reset()
        return Explanation(tuple(reports), breaks)

    return explained
