"""Compiles Triton kernels in a process beside this one, which is started once and serves every unit."""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from longhand.proof.launches import KernelCall, as_json
from longhand.telling.logs import Subject, logger

_SERVER = Path(__file__).with_name("triton_server.py")
_PATIENCE = 900.0  # seconds, for the kernels of one unit: then the process is given up
_lock = threading.Lock()
_process: subprocess.Popen[str] | None = None
_owner = 0  # the process that started it: a fork of that must not talk to it


class CompilerUnavailable(Exception):
    """The process that compiles cannot be started, or died: nothing is known of the kernels."""


@dataclasses.dataclass(frozen=True)
class Binary:
    """One compiled kernel function, as far as it was asked for.

    Attributes:
        name: Of the function.
        registers: Of each thread.
        spilled: Bytes of each thread that found no register.
        shared: Bytes of shared memory of each program.
    """

    name: str
    registers: int
    spilled: int
    shared: int

    def __str__(self) -> str:
        spilled = f", {self.spilled} bytes spilled" if self.spilled else ""
        return f"{self.name}: {self.registers} registers{spilled}, {self.shared} bytes of shared memory"


def capability(arch: str) -> int:
    """``sm_90a`` as Triton counts: 90."""
    return int("".join(re.findall(r"\d", arch)))


def start() -> None:
    """Starts the process, if it does not run: its imports take seconds, which others' work can hide."""
    with _lock:
        _running()


def compile_kernels(
    files: Mapping[str, str],
    root: Path,
    arch: str,
    calls: Mapping[str, tuple[KernelCall, ...]],
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, str]:
    """Compiles kernels of a unit; what was compiled lies in Triton's cache.

    Args:
        files: The unit's text, by path.
        root: Where the unit stands or will stand.
        arch: ``sm_90``.
        calls: By kernel, how it is called.
        tell: Is told of each kernel that is done.

    Returns:
        By kernel, why it does not compile; those that do are not in it.

    Raises:
        CompilerUnavailable: Nothing is known of them.
    """
    wanted = {
        path: text for path, text in files.items() if path == "runtime.py" or path.startswith("kernels/")
    }
    is_told = logger(Subject.KERNELS).isEnabledFor(20)
    request = {
        "files": wanted,
        "root": str(root),
        "capability": capability(arch),
        "n_processes": len(os.sched_getaffinity(0)),
        "is_told": is_told,
        "calls": {kernel: [as_json(call) for call in each] for kernel, each in calls.items()},
    }
    faults = {}
    with _lock:
        process = _running()
        assert process.stdin is not None and process.stdout is not None
        watchdog = threading.Timer(_PATIENCE, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            waiting = set(calls)
            while waiting:
                answer = json.loads(process.stdout.readline())
                waiting.discard(answer["kernel"])
                tell(answer["kernel"])
                if answer["error"]:
                    faults[answer["kernel"]] = str(answer["error"])
                for usage in answer["usage"]:
                    logger(Subject.KERNELS).info("%s for %s", Binary(**usage), arch)
        except (OSError, ValueError) as error:
            _end()
            raise CompilerUnavailable(f"the process that compiles Triton kernels died: {error}") from error
        except BaseException:
            _end()  # answers to this request would be taken for those to the next
            raise
        finally:
            watchdog.cancel()
    return faults


def _running() -> subprocess.Popen[str]:
    global _process, _owner
    if _process is None or _owner != os.getpid() or _process.poll() is not None:
        environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
        try:
            _process = subprocess.Popen(
                [sys.executable, "-P", str(_SERVER)],
                env={**environment, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C is for this process, which ends the other
            )
        except OSError as error:
            raise CompilerUnavailable(str(error)) from error
        _owner = os.getpid()
        atexit.register(_end)
    return _process


def _end() -> None:
    global _process
    if _process is not None and _owner == os.getpid():
        _process.kill()
        _process.wait()
        _process = None
