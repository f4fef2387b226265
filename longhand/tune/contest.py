"""The measuring side of `longhand tune`, as its search sees it: a worker process that may crash, hang, be replaced."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from longhand.errors import UnitError
from longhand.tune.search import crowding
from longhand.tune.worker import copy_unit

_START_SECONDS = 600.0  # a large model, with every kernel to build
_CHECK_SECONDS = 120.0
_TIMING_SECONDS = 600.0
_FEW_TURNS = 3

Values = Mapping[str, int]


class WorkerDiedError(Exception):
    """The worker ended, or did not answer in time; the message says which, as half a line."""


class TimeUpError(Exception):
    """The time for all of it was up before the worker had started."""


class Contest:
    """Measures the kernels of one unit; a context manager.

    Args:
        folder: The unit. It is copied at the beginning, and only the copy is looked at.
        end: When the worker must have started, on `time.monotonic`'s clock.

    Attributes:
        n_calls: How often each kernel is called in one call of the model.
        device: ``cpu`` or ``cuda``.
    """

    def __init__(self, folder: Path, end: float = math.inf) -> None:
        self._end = end
        self.n_calls: dict[str, int] = {}
        self.device = ""
        self._folder = folder
        self._scratch = tempfile.TemporaryDirectory(prefix="longhand-tune-")
        self._n_started = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Contest:
        return self if self._process is not None else self.start()

    def start(self) -> Contest:
        """Starts the worker.

        Raises:
            TimeUpError: It has not started in time.
            UnitError: The unit cannot run.
        """
        try:
            copy_unit(self._folder.resolve(), Path(self._scratch.name) / "unit", has_base=True)
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._scratch.cleanup()

    def seconds(self, path: str) -> float:
        """About how long all calls of a kernel take as it stands."""
        return statistics.median(self.turns(path, [{}], _FEW_TURNS)[0])

    def refusal(self, path: str, values: Values) -> str | None:
        """Why a kernel's file cannot have these values; None if it can."""
        try:
            return self._ask(_CHECK_SECONDS, "refusal", path, dict(values))
        except WorkerDiedError as death:
            self._start()
            return str(death)

    def turns(self, path: str, contestants: list[Values], n_turns: int) -> list[list[float]]:
        """Seconds of all of a kernel's calls in one call of the model, turn by turn, for each set of values.

        Raises:
            UnitError: It crashed with values that were right before.
        """
        try:
            return self._ask(
                _TIMING_SECONDS, "turns", path, [dict(values) for values in contestants], n_turns
            )
        except WorkerDiedError as death:
            self._start()
            raise UnitError(f"{self._folder / path} cannot be timed: it {death}.") from death

    def _ask(self, seconds: float, *request: Any) -> Any:
        assert self._connection is not None
        try:
            self._connection.send(request)
            return self._answer(seconds)
        except (EOFError, OSError) as error:
            raise WorkerDiedError(self._last_words()) from error

    def _answer(self, seconds: float) -> Any:
        assert self._connection is not None
        if not self._connection.poll(seconds):
            raise WorkerDiedError(f"did not end within {seconds:.0f} seconds")
        return self._connection.recv()

    def _start(self) -> None:
        """A fresh worker, on a fresh copy of the unit."""
        self._stop()
        self._n_started += 1
        place = Path(self._scratch.name) / str(self._n_started)
        place.mkdir()
        copy_unit(Path(self._scratch.name) / "unit", place / "unit", has_base=True)
        ours, theirs = multiprocessing.Pipe()
        root = str(Path(__file__).resolve().parent.parent)
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
        command = [
            sys.executable,
            "-m",
            "longhand.tune.worker",
            str(theirs.fileno()),
            str(place / "unit"),
        ]
        with theirs, open(place / "stderr", "wb") as stderr:
            self._process = subprocess.Popen(
                command,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C is for us
            )
        self._connection = ours
        try:
            answer = self._answer(max(0.0, min(_START_SECONDS, self._end - time.monotonic())))
        except WorkerDiedError as error:
            if time.monotonic() >= self._end:
                raise TimeUpError from error
            raise UnitError(f"{self._folder} cannot run: it {error}.") from error
        except (EOFError, OSError) as error:
            raise UnitError(f"{self._folder} cannot run: {self._last_words()}.") from error
        if isinstance(answer, str):
            raise UnitError(f"{self._folder} cannot run: {answer}")
        self.n_calls, self.device = answer

    def _last_words(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        if code is not None and code < 0:
            return f"crashed the process (signal {-code})"
        errors = (Path(self._scratch.name) / str(self._n_started) / "stderr").read_text(errors="replace")
        lines = [line for line in errors.splitlines() if line.strip()]
        return f"ended the process: {lines[-1]}" if lines else f"ended the process (exit code {code})"

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None


class KernelCourse:
    """One kernel's file as a search sees it (`tune_search.Course`).

    Args:
        contest: Measures.
        path: The file, relative to the unit.
        start: All values that are plain numbers, as they stand: what is compared with.
        n_turns: Of one comparison.
    """

    def __init__(self, contest: Contest, path: str, start: Values, n_turns: int) -> None:
        self._contest, self._path, self._start, self._n_turns = contest, path, start, n_turns

    def refusal(self, values: Values) -> str | None:
        """Why these values cannot be; None if they can."""
        return crowding({**self._start, **values}) or self._contest.refusal(self._path, values)

    def ratio(self, values: Values) -> float:
        """Their time over that of the start, the median of several turns."""
        old, new = self._contest.turns(self._path, [self._start, values], self._n_turns)
        return statistics.median([a / b for a, b in zip(new, old, strict=True)])
