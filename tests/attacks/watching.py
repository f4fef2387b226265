"""Waits for a process, and tells one that hangs from one that is slow on a machine with much to do.

A clock on the wall cannot: with sixteen processes on two cores a run of ten seconds takes minutes. Who hangs does not
want the processor. The system counts, for each thread, how long it ran and how long it waited in a queue to run:
together, how long it wanted to. It adds a wait only once it is over, so a thread that is in the queue at a look has
wanted to run since the look before.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

# Longer than longhand itself waits for another process (two minutes): it then says which, and better.
STILL_SECONDS = 150.0
BUSY_SHARE = 0.02  # of that time: who asks for a lock again and again wants less
MOST_PROCESSOR_SECONDS = 900.0  # a run takes some twenty; an endless loop reaches them
_PAUSE = 0.5  # seconds between looks: some ten milliseconds each


def run_watched(
    run: Callable[[], None], still: float = STILL_SECONDS, most: float = MOST_PROCESSOR_SECONDS
) -> int:
    """The exit status of a child that runs a function; what it began ends with it where it hangs.

    Args:
        run: What the child does; it ends with status 0 if this returns.
        still: Seconds in which none of its processes wants the processor, after which it hangs.
        most: Seconds of processor time of all of its processes together, after which it hangs.

    Raises:
        AssertionError: It hangs; its threads' lines are on stderr.
    """
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            faulthandler.register(signal.SIGUSR1, all_threads=True)
            run()
            status = 0
        finally:
            os._exit(status)
    return _wait(pid, still, most)


def _wait(pid: int, still: float, most: float) -> int:
    wanted = _Wanted(pid)
    looks: deque[tuple[float, float]] = deque(
        [(time.monotonic(), 0.0)]
    )  # when, and what was wanted until then
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_PAUSE)
        looks.append((time.monotonic(), wanted.seconds()))
        while looks[-1][0] - looks[1][0] > still:
            looks.popleft()
        spent, gained = looks[-1][0] - looks[0][0], looks[-1][1] - looks[0][1]
        if spent > still and gained < BUSY_SHARE * still:
            _end(pid, f"in {spent:.0f} s it wanted the processor for {gained:.1f} s")
        if wanted.ran > most:
            _end(pid, f"it has run for {wanted.ran:.0f} s of processor time")


def _end(pid: int, words: str) -> None:
    os.kill(pid, signal.SIGUSR1)
    time.sleep(1.0)  # for its lines
    for process in _family(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"It hangs: {words}")


def _family(ancestor: int) -> list[int]:
    """The processes that descend from one, and itself: compilers have sessions of their own."""
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    family = [ancestor]
    for one in family:
        family += [pid for pid, parent in parents.items() if parent == one]
    return family


class _Wanted:
    """How long a process and its descendants wanted the processor, also those that have ended meanwhile.

    Attributes:
        ran: How long they ran, in seconds.
    """

    def __init__(self, ancestor: int) -> None:
        self._ancestor = ancestor
        self._seen: dict[str, tuple[int, int]] = {}  # nanoseconds that a thread ran, and waited to
        self._total = 0
        self._looked = time.monotonic_ns()
        self.ran = 0.0

    def seconds(self) -> float:
        """Until now."""
        since, self._looked = self._looked, time.monotonic_ns()
        for pid in _family(self._ancestor):
            with contextlib.suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    self._look_at(thread, self._looked - since)
        return self._total / 1e9

    def _look_at(self, thread: Path, pause: int) -> None:
        if (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R":
            self._total += pause
        ran, waited, _ = map(int, (thread / "schedstat").read_text().split())
        before = self._seen.get(thread.name, (0, 0))
        if ran < before[0]:
            before = (0, 0)  # another thread of that number
        self._seen[thread.name] = (ran, waited)
        self._total += ran + waited - sum(before)
        self.ran += (ran - before[0]) / 1e9
