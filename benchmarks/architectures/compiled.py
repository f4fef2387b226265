"""A model through ``longhand.compile``: is it right, in inference or a training step, and does it run in kernels."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import longhand
from benchmarks.architectures.accuracy import Accuracy, Run, accuracy, reference
from benchmarks.architectures.calls import NothingToTrainError, copied, copied_arguments, step
from benchmarks.architectures.example import Example
from benchmarks.architectures.rows import Result, Verdict
from longhand.capture.bytecode.entry.entries import Event, EventKind
from longhand.compiled.backend import GraphReport, longhand_backend
from longhand.compiled.from_bytecode import captured
from longhand.options import Frontend
from longhand.verify.layouts import SettledLayouts
from longhand.verify.roundings import OtherRoundings

_DRAWS = 3  # of other last bits
_FACTOR = 3.0  # of eager's own distance from float64
_FLOOR = {torch.float32: 2e-6, torch.bfloat16: 1.6e-2}  # of a result's scale


class Watched:
    """A compiled model and what it says of itself.

    Args:
        module: The model.
        frontend: What captures it.
    """

    def __init__(self, module: Any, frontend: Frontend) -> None:
        self.reports: list[GraphReport] = []
        self.events: list[Event] = []
        if frontend is Frontend.DYNAMO:
            backend = functools.partial(longhand_backend, report=self.reports.append)
            self.call: Callable[..., Any] = torch.compile(module, backend=backend)
        else:
            self.call = captured(module, report=self.reports.append, listener=self.events.append)

    @property
    def n_breaks(self) -> int:
        """Where the code was cut, or left to CPython."""
        return sum(event.kind in (EventKind.BREAK, EventKind.SKIP) for event in self.events)

    @property
    def numbers(self) -> dict[str, Any]:
        """Graphs, breaks, and the share of bytes that generated kernels move."""
        summaries = [report.summary for report in self.reports if report.summary]
        ours = sum(summary.kernel_bytes for summary in summaries)
        others = sum(summary.library_bytes for summary in summaries)
        numbers: dict[str, Any] = {
            "graphs": len(self.reports),
            "kernels": sum(summary.n_kernels for summary in summaries),
            "breaks": self.n_breaks,
        }
        return numbers | ({"share": ours / (ours + others)} if ours + others else {})

    @property
    def is_in_eager(self) -> bool:
        """Whether nothing runs in what was generated: then it is eager that differs from eager."""
        return bool(self.reports) and all(report.reason for report in self.reports)

    @property
    def eager_reasons(self) -> list[str]:
        """Why graphs were left in eager."""
        return [report.reason for report in self.reports if report.reason]


def compiled_result(example: Example, dtype: torch.dtype, frontend: Frontend, *, train: bool) -> Result:
    """Calls of the compiled model, against eager and float64; the third is watched: the second may fill caches.

    Some models ask whether they are compiled, and compute something else then, or raise, whatever compiles them. They
    are held against what they compute in eager when they are told so; a row that raises then cannot be made. Others
    are so ill conditioned that eager is right by chance: they are held against what its last bits make of it. Where an
    operation of PyTorch is wrong for how tensors lie in memory, they are held against what is right.
    """
    longhand.reset()
    module, args, kwargs = copied(example, None if dtype is torch.float32 else dtype)

    def run(one: Example) -> list[torch.Tensor]:
        eager = copied(one)
        return step(eager[0], *eager, train=train)

    try:
        known = reference((module, args, kwargs), run)
    except NothingToTrainError as error:
        return Result(Verdict.NOT_MADE, f"in eager {error}")
    watched = Watched(module, frontend)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again = copied((module, args, kwargs))
        try:
            actual = step(watched.call, module, args, kwargs, train=train)
        except Exception:
            if reason := _why_not_compiled(again, run):
                return Result(Verdict.NOT_MADE, reason)
            raise
    numbers = watched.numbers
    distance = accuracy(actual, known)
    if not _is_right(distance, dtype) and not _why_not_compiled(again, run):
        when_compiled = accuracy(actual, reference(again, _told_compiled(run)))
        if _is_right(when_compiled, dtype):
            distance = when_compiled
            numbers["asks"] = "is_compiling"
    if not _is_right(distance, dtype):
        settled: list[Counter[str]] = []
        by_layout = accuracy(actual, reference(again, _in_settled_layouts(run, settled)))
        is_known = settled[0] and all(one == settled[0] for one in settled)
        if is_known and _is_right(by_layout, dtype):
            distance = by_layout
            numbers["wrong in torch"] = ", ".join(sorted(settled[0]))
    if not _is_right(distance, dtype):
        by_bits = accuracy(actual, reference(again, run, in_last_bits=True))
        if _is_right(by_bits, dtype):
            distance = by_bits
            numbers["noise"] = "last bits"
    numbers |= {"error": distance.error, "eager_error": distance.eager_error}
    if not _is_right(distance, dtype):
        if watched.is_in_eager:
            return Result(
                Verdict.EAGER, f"{watched.eager_reasons[0].splitlines()[0]}; eager differs", numbers
            )
        if distance.note and (luck := luck_of_eager(again, run)):
            return Result(Verdict.UNDECIDED, luck, numbers)
        note = distance.note or f"error {distance.error:.1e}, eager's {distance.eager_error:.1e}"
        return Result(Verdict.WRONG, note, numbers)
    step(watched.call, module, *copied_arguments(*again[1:]), train=train)
    n_before = len(watched.reports)
    frames = _frames_of(lambda: step(watched.call, module, *again[1:], train=train))
    if len(watched.reports) > n_before:  # what it draws decides its sizes
        numbers["more"] = len(watched.reports) - n_before
    if reason := _why_eager(watched, frontend, [str(one.message) for one in told], frames, module):
        return Result(Verdict.EAGER, reason, numbers)
    return Result(Verdict.RIGHT, "", numbers)


def _is_right(found: Accuracy, dtype: torch.dtype) -> bool:
    return not found.note and found.error <= _FACTOR * found.eager_error + _FLOOR[dtype]


def luck_of_eager(example: Example, run: Run) -> str:
    """How eager's own results are no longer the same tensors where its operations end in other last bits; else empty.

    A model that rounds durations to lengths has other lengths then, in 16 bits: what is right cannot be told.
    """
    shapes = [one.shape for one in run(example)]
    for draw in range(_DRAWS):
        moved = None
        # Some operations run under no mode, and with other bits a model may raise: neither says anything.
        with contextlib.suppress(Exception), OtherRoundings(draw):
            moved = run(example)
        if moved is not None and [one.shape for one in moved] != shapes:
            return "eager's results have other sizes where its operations end in other last bits"
    return ""


def _in_settled_layouts(run: Run, found: list[Counter[str]]) -> Run:
    """The run where no operation of PyTorch is wrong for a layout; which ones were, in each run, is found."""

    def settled(example: Example) -> list[torch.Tensor]:
        with SettledLayouts() as layouts:
            results = run(example)
        found.append(layouts.wrong)
        return results

    return settled


def _told_compiled(run: Run) -> Run:
    """The run of a model that is told that it is compiled, in eager."""

    def told(example: Example) -> list[torch.Tensor]:
        with mock.patch("torch.compiler.is_compiling", lambda: True):
            return run(example)

    return told


def _why_not_compiled(example: Example, run: Run) -> str:
    """What the model's own code raises in eager when it is told that it is compiled; empty if nothing."""
    try:
        _told_compiled(run)(example)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        return f"told that it is compiled, it raises in eager: {type(error).__name__}: {first[:160]}"
    return ""


def _frames_of(call: Callable[[], Any]) -> set[str]:
    """The files of every Python function that a call runs; code that is only read in is none."""
    files: set[str] = set()

    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


def _why_eager(watched: Watched, frontend: Frontend, told: list[str], frames: set[str], module: Any) -> str:
    """What of a later call does not run in what was generated; empty if all does."""
    if watched.eager_reasons:
        return watched.eager_reasons[0].splitlines()[0]
    if not watched.reports:
        return "no graph"
    if warned := [message for message in told if "longhand" in message.lower()]:
        return warned[0].splitlines()[0]
    folders = {str(report.folder) for report in watched.reports if report.folder}
    if not any(str(Path(file).parent) in folders for file in frames):
        return "silent: a later call runs no unit"
    if any(file.startswith("<eval_with_key>") for file in frames):
        return "silent: a later call runs a graph in eager"
    own = sys.modules[type(module).__module__].__file__
    is_whole = len(watched.reports) == 1 and not watched.n_breaks and frontend is Frontend.BYTECODE
    if is_whole and own in frames:  # what Dynamo runs instead has the original's file name, too
        return f"silent: a later call runs {Path(own).name}"
    return ""
