"""Who hangs is told from who is slow."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.watching import run_watched

ON_ONE_CORE = ("taskset", "1")
SHORT = "import time\nwhile time.process_time() < 0.1: pass"


def test_who_waits_for_what_never_comes_hangs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    held = (tmp_path / "lock").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)

    def wait_for_the_lock() -> None:
        with (tmp_path / "lock").open("w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)

    with pytest.raises(AssertionError, match=r"It hangs: in . s it wanted the processor for 0.0 s"):
        run_watched(wait_for_the_lock, still=2.0)
    assert "wait_for_the_lock" in capfd.readouterr().err  # where


def test_who_gets_little_of_the_processor_does_not_hang() -> None:
    """Ten that never stop share one core with it, so that on the wall it stands still for seconds."""
    others = [subprocess.Popen([*ON_ONE_CORE, sys.executable, "-c", "while True: pass"]) for _ in range(10)]
    command = [*ON_ONE_CORE, "nice", "-n", "10", sys.executable, "-c", SHORT]
    try:
        assert run_watched(lambda: subprocess.run(command, check=True) and None, still=1.0) == 0
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_loop_without_end_hangs() -> None:
    def loop() -> None:
        while True:
            pass

    with pytest.raises(AssertionError, match=r"It hangs: it has run for \d+ s of processor time"):
        run_watched(loop, most=1.0)


def test_the_status_is_that_of_the_run() -> None:
    def fail() -> None:
        raise ValueError

    assert run_watched(lambda: None) == 0
    assert run_watched(fail) == 1
