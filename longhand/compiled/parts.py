"""A call that is not one graph, written as several units: one for each graph, with Python between them."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from longhand.capture.bytecode.entry.breaks import BreakRecord
from longhand.capture.bytecode.entry.entries import Capture, Event
from longhand.capture.frontends.call import told_apart
from longhand.compiled.backend import GraphReport, longhand_backend, number_from_one
from longhand.emit.unit.lock_file import LOCK, read_regular
from longhand.emit.unit.on_disk import replace_file
from longhand.emit.unit.templates import render_template
from longhand.errors import OutputError, UnitError

__all__ = ["OPTIONS", "Parts", "options_of_parts", "write_parts"]

MAP = "GRAPHS.md"
OPTIONS = "graphs.json"  # how the units below a folder are made again, as a lock says it of one unit


@dataclasses.dataclass(frozen=True, repr=False)
class Parts:
    """What was written for a call with graph breaks.

    Attributes:
        out: The folder; each graph's unit has one below it.
        graphs: What became of each graph, in the order in which the call runs them.
        breaks: Why the call is not one graph.
    """

    out: Path
    graphs: tuple[GraphReport, ...]
    breaks: tuple[BreakRecord, ...]

    def __repr__(self) -> str:
        return f"<Parts {self._title}; print it for more>"

    @property
    def _title(self) -> str:
        return f"{self.out}: {_counted(len(self.graphs), 'graph')}, {_counted(len(self.breaks), 'break')}"

    def __str__(self) -> str:
        lines = [self._title]
        for graph in self.graphs:
            where = graph.folder.name if graph.folder is not None else f"in eager: {graph.reason}"
            lines.append(f"  {_counted(graph.n_ops, 'op')}: {where}")
        lines += [f"  {one.where}: {one.reason}" for one in self.breaks]
        return "\n".join(lines)


def write_parts(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    out: Path,
    *,
    mode: str,
    train: bool,
    made_of: Mapping[str, Any] | None = None,
) -> Parts:
    """Runs a call once, on copies, and writes each of its graphs as a unit below `out`.

    What was edited in a unit there is merged. ``GRAPHS.md`` is the map; it is written anew each time. ``graphs.json``
    holds the options that `longhand generate DIR` renews it from, where there is a factory.

    Raises:
        LonghandError: A graph cannot be written. Units written before it stay.
        OutputError: The folder holds a unit of one graph already.
    """
    if (out / LOCK).exists():
        raise OutputError(
            f"{out} holds a unit of one graph, and the call has several now.", hint="Choose another folder."
        )
    number_from_one(out)
    graphs: list[GraphReport] = []
    events: list[Event] = []
    backend = functools.partial(
        longhand_backend, mode=mode, options={"out": str(out), "strict": True}, report=graphs.append
    )
    capture = Capture(backend, listener=events.append)
    model, args, kwargs = copy.deepcopy((model, *told_apart(model, args, kwargs)))
    with torch.set_grad_enabled(train):
        capture.call(model, args, kwargs)
    breaks = tuple(dict.fromkeys(event.record for event in events if event.record is not None))
    parts = Parts(out, tuple(graphs), breaks)
    _replace(out / MAP, render_template("graphs.md.jinja", parts=parts, name=out.name))
    if made_of is not None:
        _replace(out / OPTIONS, json.dumps(dict(made_of), indent=1, sort_keys=True) + "\n")
    number_from_one(out)
    return parts


def options_of_parts(folder: Path) -> dict[str, Any] | None:
    """What `generate` was asked when it wrote several units below a folder; None where it did not.

    Raises:
        UnitError: It cannot be read.
    """
    path = folder / OPTIONS
    if not path.is_file() or (folder / LOCK).is_file():
        return None
    try:
        options = json.loads(read_regular(path))
        known = {name: options[name] for name in ("factory", "inputs", "device", "arch", "mode", "train")}
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UnitError(f"{path} does not say how its units were made: {error}.") from error
    return {**known, "inputs": tuple(known["inputs"])}


def _replace(path: Path, text: str) -> None:
    """Never half written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error}.") from error
    replace_file(path, text.encode())


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"
