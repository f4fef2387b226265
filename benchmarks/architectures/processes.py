"""Each row in a process of its own, with a time limit: what crashes or hangs costs one row.

The processes are forked from one that has imported the packages, and has never run an operation or seen a GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import re
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.architectures.rows import Part, Result, Verdict

_FORK = multiprocessing.get_context("fork")
Measure = Callable[[str], Result]


@dataclasses.dataclass
class Running:
    """One row that is being measured.

    Attributes:
        row: Which.
        process: Its process, which leads a process group.
        results: Where the parts' results come from.
        waiting: Parts whose result has not come, in order.
        began: When the first of them began.
        folder: Its own cache and temporary files.
    """

    row: str
    process: Any
    results: multiprocessing.connection.Connection
    waiting: list[Part]
    began: float
    folder: str


def run_rows(
    jobs: Sequence[tuple[str, dict[Part, Measure]]],
    tell: Callable[[str, Part, Result], None],
    *,
    n_processes: int,
    timeout: float,
    deadline: float,
) -> int:
    """Measures rows, telling each result as it comes.

    Args:
        jobs: Rows, and what to measure of each, in order.
        tell: Is told the row, the part and what came of it.
        n_processes: At once.
        timeout: Seconds for a part.
        deadline: Of time.monotonic: no row begins later, and what runs then is ended without a result.

    Returns:
        How many rows were not begun or not finished.
    """
    left = list(reversed(jobs))
    running: list[Running] = []
    try:
        while (left and time.monotonic() < deadline) or running:
            while left and len(running) < n_processes and time.monotonic() < deadline:
                running.append(_start(*left.pop()))
            multiprocessing.connection.wait([one.results for one in running], timeout=1.0)
            running = [one for one in running if not _is_over(one, tell, timeout)]
            if time.monotonic() >= deadline:
                break
        return len(left) + len(running)
    finally:
        for one in running:
            _end(one)


def _start(row: str, measures: dict[Part, Measure]) -> Running:
    results, given = _FORK.Pipe(duplex=False)
    folder = tempfile.mkdtemp(prefix="longhand_row_")
    process = _FORK.Process(target=_child, args=(row, measures, given, folder))
    process.start()
    given.close()
    return Running(row, process, results, list(measures), time.monotonic(), folder)


def _child(
    row: str, measures: dict[Part, Measure], results: multiprocessing.connection.Connection, folder: str
) -> None:
    os.setpgid(0, 0)
    os.environ["XDG_CACHE_HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    with open(Path(folder) / "output", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    for part, measure in measures.items():
        began = time.perf_counter()
        try:
            result = measure(row)
        except Exception as error:
            result = Result(Verdict.FAILED, _in_a_line(error))
        results.send((part, dataclasses.replace(result, seconds=round(time.perf_counter() - began, 2))))
        if result.verdict is Verdict.NOT_MADE:
            break
    results.close()


def _in_a_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text[0][:240] if text else ''}{place}"


def _is_over(one: Running, tell: Callable[[str, Part, Result], None], timeout: float) -> bool:
    """Takes what came from a process; whether it is finished."""
    with contextlib.suppress(EOFError):
        while one.results.poll():
            part, result = one.results.recv()
            tell(one.row, part, result)
            one.waiting.remove(part)
            one.began = time.monotonic()
            if result.verdict is Verdict.NOT_MADE:
                one.waiting.clear()
    seconds = time.monotonic() - one.began
    if one.process.is_alive() and one.waiting and seconds <= timeout:
        return False
    if one.waiting:
        is_late = one.process.is_alive() and seconds > timeout
        output = _output(one)
        _end(one)
        died = _last_words(one.process.exitcode, output)
        result = Result(Verdict.TIMEOUT, f"{timeout:.0f} s") if is_late else Result(Verdict.CRASHED, died)
        tell(one.row, one.waiting[0], dataclasses.replace(result, seconds=round(seconds, 2)))
    else:
        _end(one)
    return True


def _output(one: Running) -> str:
    with contextlib.suppress(FileNotFoundError):  # it died before it wrote anything
        return (Path(one.folder) / "output").read_text(errors="replace")
    return ""


def _last_words(code: int | None, output: str) -> str:
    """How a process ended, and the innermost frames of what it ran then, as faulthandler wrote them."""
    ended = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"
    _, _, crash = output.rpartition("Fatal Python error: ")
    threads = re.split(r"^(?=(?:Current )?[Tt]hread )", crash, flags=re.MULTILINE)
    current = next((thread for thread in threads if thread.startswith("Current")), threads[-1])
    frames = re.findall(r'^  File ".*?([^/"]+)", line (\d+)', current, re.MULTILINE)[:4]
    return " ".join([ended, *(f"{file}:{line}" for file, line in frames)])


def _end(one: Running) -> None:
    """Ends a process, what it started, and its files."""
    if one.waiting:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(one.process.pid, signal.SIGKILL)
    one.process.join(timeout=5)
    if one.process.is_alive():
        one.process.kill()
        one.process.join()
    one.results.close()
    shutil.rmtree(one.folder, ignore_errors=True)


def in_share(rows: Sequence[str], share: str) -> Iterator[str]:
    """Every n-th row from the i-th on, for ``i/n``.

    Raises:
        ValueError: It does not read so.
    """
    number, _, count = share.partition("/")
    if not 1 <= int(number) <= int(count):
        raise ValueError(f"--share {share}: i/n with 1 <= i <= n")
    yield from rows[int(number) - 1 :: int(count)]
