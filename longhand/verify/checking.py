"""Runs a unit's kernels against longhand's own references, those in `.base/`, and tells what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from longhand.emit.cpp.syntax import syntax_errors
from longhand.emit.unit.lock_file import read_lock
from longhand.errors import NotRunHereError, OptionError, UnitError
from longhand.verify.varied_sizes import Sizes
from longhand.verify.worker_progress import Listener, Tell, no_progress

_MOST_SECONDS = 1800.0


@dataclasses.dataclass(frozen=True)
class KernelCheck:
    """One kernel (or the whole model) at one set of sizes.

    Attributes:
        name: The kernel, or ``the model, tensor 0``.
        sizes: The sizes and scalars that it was called with; the shape, for a result of the model.
        error: The largest difference from the reference in float64.
        allowed: What it may be: twice the error of the reference in the tensors' own types, or a few units in the
            last place.
        mismatch: The first element that is wrong, its index and both values; else empty.
        seconds: What all calls of the kernel took together, in the check.
        at: The sizes that vary, where they are not the example's: ``batch=7``.
    """

    name: str
    sizes: tuple[float, ...]
    error: float
    allowed: float
    mismatch: str
    seconds: float = 0.0
    at: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it passes."""
        return self.error <= self.allowed


@dataclasses.dataclass(frozen=True)
class Checks:
    """What came of checking kernels.

    Attributes:
        kernels: Each kernel, at each set of sizes; last the model.
        part: What part of the arguments that they are made for they ran on, in words; empty if on all.
    """

    kernels: tuple[KernelCheck, ...]
    part: str = ""


def check_kernels(
    folder: Path, names: Sequence[str] = (), sets: Sequence[Sizes] = (), tell: Tell = no_progress
) -> Checks:
    """The named kernels of a unit, or all of them and the model on top, at the example's sizes and at others.

    A CUDA unit on a machine without a GPU runs in Triton's interpreter, large arguments cut down.

    Raises:
        UnitError: It cannot run here, or crashed; the message says why.
    """
    outcome = run_worker("longhand.verify.check_worker", folder, json.dumps(list(sets)), *names, tell=tell)
    seconds = outcome["seconds"]
    checks = tuple(
        KernelCheck(
            name, tuple(sizes), _number(error), _number(allowed), mismatch, seconds.get(name, 0.0), at
        )
        for name, sizes, error, allowed, mismatch, at in outcome["rows"]
    )
    return Checks(checks, outcome["part"])


def is_interpreted(folder: Path) -> bool:
    """Whether a unit's kernels run in Triton's interpreter here: it is for CUDA, and there is no GPU."""
    return read_lock(folder).get("device") == "cuda" and not torch.cuda.is_available()


def run_worker(worker: str, folder: Path, *words: str, tell: Tell = no_progress) -> dict[str, Any]:
    """Runs ``python -m WORKER FOLDER RESULT WORD...`` in a process of its own; what it wrote to RESULT, as JSON.

    Raises:
        UnitError: The unit cannot run here, or crashed; the message says why.
    """
    environment = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if is_interpreted(folder):
        environment["TRITON_INTERPRET"] = "1"
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "rows.json"
        command = [sys.executable, "-m", worker, str(folder), str(result), *words]
        listener = Listener(tell)
        done = _run(command, environment, folder, listener)
        if done.returncode == -signal.SIGXCPU:
            raise NotRunHereError(
                f"{folder} is too large for Triton's interpreter, and there is no GPU here.",
                hint="Run longhand verify where there is one.",
            )
        if done.returncode != 0 or not result.exists():
            at = f" ({listener.last})" if listener.last else ""
            raise UnitError(f"{folder} cannot run: {_last_words(done)}{at}")
        outcome: dict[str, Any] = json.loads(result.read_text())
    return outcome


def _run(
    command: list[str], environment: dict[str, str], folder: Path, listener: Listener
) -> subprocess.CompletedProcess[str]:
    """Runs a worker to its end.

    Raises:
        UnitError: It has none: a kernel loops for ever, say.
    """
    seconds = _most_seconds()
    with (
        listener.pipe(environment) as progress,
        subprocess.Popen(
            command,
            pass_fds=(progress,),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        try:
            out, errors = process.communicate(timeout=seconds)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # compilers that it started, too
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise UnitError(
                f"{folder} does not end: a kernel of it, or its compiler, still ran after {seconds:g} s.",
                hint="Look for a loop without end, or set LONGHAND_WORKER_SECONDS to more.",
            ) from None
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def _most_seconds() -> float:
    given = os.environ.get("LONGHAND_WORKER_SECONDS", "")
    try:
        seconds = float(given or _MOST_SECONDS)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise OptionError(f"LONGHAND_WORKER_SECONDS is {given!r}: expected a number above 0.")
    return seconds


def inspect_edits(folder: Path, edited: Sequence[str]) -> dict[str, str]:
    """What is wrong with edited kernel files, by path; a kernel's C++ file and its Python face are checked as one.

    A kernel that cannot run on this machine has no fault that could be known: it is not among the answers.
    """
    kernels: dict[str, list[str]] = {}
    for path in edited:
        pure = PurePosixPath(path)
        if str(pure.parent) == "kernels" and pure.suffix in (".py", ".cpp") and pure.stem != "__init__":
            kernels.setdefault(pure.stem, []).append(path)
    if any(path.endswith(".h") for path in edited):
        for source in sorted((folder / "kernels").glob("*.cpp")):
            kernels.setdefault(source.stem, [source.relative_to(folder).as_posix()])
    problems = {str(error.path): str(error) for error in syntax_errors(folder, kernels)}
    names = [name for name, paths in kernels.items() if not set(paths) & set(problems)]
    if not names:
        return problems
    try:
        rows = check_kernels(folder, names).kernels
    except NotRunHereError:
        return problems
    except UnitError as error:
        return problems | {path: error.what for name in names for path in kernels[name]}
    for row in rows:
        if not row.is_right:
            words = f"{row.name}() is wrong {row.mismatch} (error {row.error:.2g}, allowed {row.allowed:.2g})"
            problems |= {path: words for path in kernels[row.name] if path not in problems}
    return problems


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"a kernel crashed the process (signal {-done.returncode})."
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with exit code {done.returncode}."


def _number(value: float | None) -> float:
    return math.inf if value is None else float(value)
