"""Runs a command of longhand's up to its n-th step on a folder, and there kills it or lets another one run.

A step is whatever Python tells its audit hooks of: each file that is opened, written, linked, renamed or removed, each
folder that is made or listed, each call into the C library. Between any two of them a process may end, or another one
may do all of its work: nothing here is left to chance, but where both wait for one lock.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

Command = Callable[[], None]
_SECONDS = 0.06  # for the other one: it takes a few milliseconds, or waits for a lock
_TOLD = ("open", "os.", "shutil.", "tempfile.", "ctypes.dlsym", "fcntl.flock")


def n_steps(command: Command, folder: Path) -> int:
    """How many steps a command has."""
    read, write = os.pipe()

    def run() -> None:
        told = [0]
        _at_each_step(folder, lambda number: told.__setitem__(0, number))
        command()
        os.write(write, str(told[0]).encode())

    _wait(_start(run))
    os.close(write)
    with os.fdopen(read) as answer:
        return int(answer.read() or 0)


def kill_at(command: Command, folder: Path, step: int) -> None:
    """Runs a command, and kills it before a step."""

    def run() -> None:
        _at_each_step(folder, lambda number: os.kill(os.getpid(), signal.SIGKILL) if number == step else None)
        command()

    _wait(_start(run))


def interrupt_at(command: Command, folder: Path, step: int, other: Command) -> tuple[bool, bool]:
    """Runs a command, and another one before a step; it waits for the other unless that waits for it.

    Returns:
        Whether each of them ended well.
    """
    waits, goes = os.pipe()

    def run_other() -> None:
        os.close(goes)
        os.read(waits, 1)
        other()

    their_pid = _start(run_other)  # before: a child has the locks that its parent had

    def run() -> None:
        def look(number: int) -> None:
            if number == step:
                os.write(goes, b"!")
                until = time.monotonic() + _SECONDS
                while time.monotonic() < until and _is_running(their_pid):
                    time.sleep(0.001)

        _at_each_step(folder, look)
        command()

    code = _wait(_start(run))
    os.close(goes)
    their_code = _wait(their_pid)
    os.close(waits)
    return code == 0, their_code == 0


def _is_running(pid: int) -> bool:
    """Whether a process that is no child of ours has not ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"


def _start(command: Command) -> int:
    """The process id of a child that runs a command: it ends with 0 if that ended, with 1 if it raised."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        command()
        code = 0
    except BaseException as error:
        if not os.environ.get("LONGHAND_STEPWISE_QUIET"):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def _wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _at_each_step(folder: Path, look: Callable[[int], None]) -> None:
    """Calls `look` with 1, 2, ... before each step of this process on what is in or beside a folder."""
    own, place, number = os.getpid(), str(folder.parent), [0]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if os.getpid() != own or not event.startswith(_TOLD):
            return
        words = [os.fsdecode(word) for word in arguments if isinstance(word, (str, bytes, os.PathLike))]
        if event in ("ctypes.dlsym", "fcntl.flock") or any(word.startswith(place) for word in words):
            number[0] += 1
            look(number[0])

    sys.addaudithook(hook)
