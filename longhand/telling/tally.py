"""How often compiled code ran in kernels, how often in eager, and why: for `explain`, and at exit for LONGHAND_LOGS."""

from __future__ import annotations

import atexit
import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from longhand.telling.logs import Subject, logger

__all__ = ["EagerGraph", "GraphCalls", "counted", "counts_calls", "forget_calls", "frame_in_eager", "summary"]


@dataclasses.dataclass
class GraphCalls:
    """The calls of one graph.

    Attributes:
        title: What it is, for people.
        total: All of them; counted only where somebody asked.
        in_eager: How many ran in eager, by reason.
    """

    title: str
    total: int = 0
    in_eager: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def in_kernels(self) -> int:
        """How many ran in generated code."""
        return max(0, self.total - self.in_eager.total())

    def __str__(self) -> str:
        words = [f"{times(self.in_kernels())} in kernels"] if self.in_kernels() or not self.in_eager else []
        words += [f"{times(count)} in eager: {reason}" for reason, count in self.in_eager.most_common()]
        return "; ".join(words)


class EagerGraph:
    """A graph as eager runs it, for calls that its unit does not take.

    Args:
        function: The graph in eager.
        calls: Counts them.
    """

    def __init__(self, function: Callable[..., Any], calls: GraphCalls) -> None:
        self.function = function
        self._calls = calls

    def __call__(self, reason: str, inputs: tuple[Any, ...]) -> Any:
        """Runs it, and tells why, unless it raises: then the user's own call is at fault, in eager as elsewhere."""
        results = self.function(*inputs)
        logger(Subject.EAGER).info("a call runs in eager: %s", reason)
        self._calls.in_eager[reason] += 1
        return results


_graphs: list[GraphCalls] = []
_frames: collections.Counter[str] = collections.Counter()


def counts_calls() -> bool:
    """Whether LONGHAND_LOGS asks for the summary at exit."""
    return logger(Subject.CALLS).isEnabledFor(20)


def counted(function: Callable[..., Any], calls: GraphCalls) -> Callable[..., Any]:
    """The same function; every call of it is counted."""
    _graphs.append(calls)
    _tell_at_exit()

    def run(*inputs: Any) -> Any:
        calls.total += 1
        return function(*inputs)

    return run


def frame_in_eager(reason: str) -> None:
    """Counts a call that capture left to CPython for good."""
    _frames[reason] += 1


def forget_calls() -> None:
    """Starts anew."""
    _graphs.clear()
    _frames.clear()


@functools.cache
def _tell_at_exit() -> None:
    atexit.register(_tell)


def _tell() -> None:
    for line in summary().splitlines():
        logger(Subject.CALLS).info("%s", line)


def summary() -> str:
    """All calls so far: one line for all, one for each graph, one for each function that was left to CPython."""
    total = sum(calls.total for calls in _graphs)
    in_eager = sum(calls.in_eager.total() for calls in _graphs)
    lines = [
        f"{len(_graphs)} graph{'s' * (len(_graphs) != 1)}: {times(max(0, total - in_eager))} in kernels, "
        f"{times(in_eager)} in eager; {times(_frames.total())} of functions that are not captured"
    ]
    lines += [f"{calls.title}: {calls}" for calls in _graphs]
    lines += [f"{times(count)} in eager: {reason}" for reason, count in _frames.most_common()]
    return "\n".join(lines)


def times(count: int) -> str:
    """``1 call``, ``2 calls``."""
    return f"{count} call{'s' * (count != 1)}"
