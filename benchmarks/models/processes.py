"""Many rows are compiled at once, and timed one by one: a GPU's machine has many cores, and one GPU.

Each row is a process, forked from one that has imported the packages and never seen the GPU. It says when it is
ready, waits for its turn, and sends its figures. What is not ready in time is left for another run.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.models.contenders import CONTENDERS
from benchmarks.models.row import Row, RowResult, prepare, time_contenders

__all__ = ["measure_rows"]

_FORK = multiprocessing.get_context("fork")
_SECONDS_TO_TIME = 60.0


def measure_rows(
    rows: Sequence[Row],
    tell: Callable[[Row, RowResult], None],
    *,
    device: str,
    n_processes: int,
    ready_seconds: float,
    deadline: float,
    n_turns: int,
    kernels: bool,
    contenders: Sequence[str],
    work: Callable[..., None] | None = None,
) -> list[Row]:
    """Measures rows in batches of `n_processes`.

    Args:
        rows: What to measure, in order.
        tell: Is told each result as it comes.
        device: ``cuda`` or ``cpu``.
        n_processes: How many are compiled at once.
        ready_seconds: How long a batch may compile.
        deadline: Of time.monotonic(): no batch begins later, and none compiles or is timed beyond it.
        n_turns: Interleaved turns of each row.
        kernels: Whether the kernels' own times are asked for.
        contenders: Of CONTENDERS, by name.
        work: What a row's process runs; for tests.

    Returns:
        The rows that were not begun, not ready in time or not timed.
    """
    left = list(rows)
    unready: list[Row] = []
    while left and time.monotonic() < deadline:
        batch, left = left[:n_processes], left[n_processes:]
        until = min(deadline, time.monotonic() + ready_seconds)
        unready += _measure_batch(
            batch, tell, until, deadline, (device, n_turns, kernels, contenders), work or _row_process
        )
    return unready + left


def _measure_batch(
    batch: Sequence[Row],
    tell: Callable[[Row, RowResult], None],
    until: float,
    deadline: float,
    settings: tuple[str, int, bool, Sequence[str]],
    work: Callable[..., None],
) -> list[Row]:
    running = {}
    for row in batch:
        ours, theirs = _FORK.Pipe()
        process = _FORK.Process(target=work, args=(row, theirs, *settings), daemon=True)
        process.start()
        theirs.close()
        running[row] = (process, ours)
    try:
        ready = _wait_until_ready({row: pipe for row, (_, pipe) in running.items()}, until)
        for row in batch:
            if row not in ready:  # it must not compile while others are timed
                _end(running[row][0])
        left = [row for row in batch if row not in ready]
        for row in ready:
            result = None if time.monotonic() > deadline else _timed(running[row][1])
            if result is None:
                left.append(row)
            else:
                tell(row, result)
            _end(running[row][0])  # what it holds of the GPU is free for the next one's measurement
        return left
    finally:
        for process, _ in running.values():
            _end(process)


def _wait_until_ready(pipes: dict[Row, Any], until: float) -> list[Row]:
    waiting, ready = dict(pipes), []
    while waiting and time.monotonic() < until:
        readable = multiprocessing.connection.wait([*waiting.values()], timeout=1.0)
        for row in [row for row, pipe in waiting.items() if pipe in readable]:
            try:
                if waiting.pop(row).recv() == "ready":
                    ready.append(row)
            except EOFError:
                print(f"{row.name}: its process died", flush=True)
    return ready


def _timed(pipe: Any) -> RowResult | None:
    try:
        pipe.send("go")
        return pipe.recv() if pipe.poll(_SECONDS_TO_TIME) else None
    except (EOFError, BrokenPipeError):
        return None


def _end(process: Any) -> None:
    if process.is_alive():
        process.kill()
    process.join(timeout=10)


def _row_process(
    row: Row, pipe: Any, device: str, n_turns: int, kernels: bool, contenders: Sequence[str]
) -> None:
    warnings.simplefilter("ignore")
    # One thread of Python each; Inductor's own pool of processes would be as many as there are cores, for each row.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    try:
        ready = prepare(row, device, torch.bfloat16, {name: CONTENDERS[name] for name in contenders})
    except Exception as error:
        print(f"{row.name}: {''.join(traceback.format_exception(error)[-3:])}", flush=True)
        pipe.send("failed")
        return
    if device == "cuda":
        torch.cuda.synchronize()
    pipe.send("ready")
    pipe.recv()
    pipe.send(time_contenders(ready, device, n_turns, kernels))
