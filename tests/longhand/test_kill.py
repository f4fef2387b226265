"""`kill -9` at random moments of real `generate` runs: the old unit or the new one is there; a re-run completes it."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = "first", "op after"
N_KILLS = 50
N_KILLS_IN_CI = 2
# Lines of the kernel that both versions have, and of one that only the old one has.
EDITS = (
    ("kernels/add_and_layer_norm.cpp", "constexpr long GRAIN = 32768;", "constexpr long GRAIN = 16384;"),
    ("kernels/gelu.cpp", "#pragma omp parallel", "// Mine.\n#pragma omp parallel"),
)


class Server:
    """Runs `generate` in processes of its own, one at a time."""

    def __init__(self, scratch):
        environment = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", TMPDIR=str(scratch))
        with open(scratch / "stderr", "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.longhand.generate_server"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def start(self, version, out):
        """The process id of a run that has begun."""
        self._process.stdin.write(f"{version}\t{out}\n")
        self._process.stdin.flush()
        word, pid = self._process.stdout.readline().split()
        assert word == "started"
        return int(pid)

    def end(self):
        """The exit code of the run."""
        word, status = self._process.stdout.readline().split()
        assert word == "ended"
        return int(status)

    def run(self, version, out):
        """A whole run; its seconds."""
        begin = time.monotonic()
        self.start(version, out)
        assert self.end() == 0
        return time.monotonic() - begin

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("scratch"))
    yield found
    found.close()


def snapshot(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def kill_often(server, folder, n_kills, *, is_edited):
    """Kills runs at random moments; how many left the old unit, how many the new one, and how many were too late.

    At least `n_kills` are in time, and at least one of them in time for the old unit.
    """
    rng = random.Random(0)
    saved, out = folder / "saved", folder / "kept" / "unit"
    server.run(OLD, saved)
    if is_edited:
        for path, before, after in EDITS:
            text = (saved / path).read_text()
            assert before in text
            (saved / path).write_text(text.replace(before, after, 1))
    old = snapshot(saved)
    shutil.copytree(saved, out)
    seconds = server.run(NEW, out)
    new = snapshot(out)
    assert new != old
    if is_edited:
        assert b"GRAIN = 16384;" in new[EDITS[0][0]] and b"// Mine." in new["kernels/aside/gelu.cpp"]
    counts = {"old": 0, "new": 0, "too late": 0}
    number = 0
    while counts["old"] + counts["new"] < n_kills or not counts["old"]:
        number += 1
        assert number < 10 * n_kills, counts
        shutil.rmtree(out.parent)
        shutil.copytree(saved, out)
        pid = server.start(NEW, out)
        if number % 2:  # anywhere
            time.sleep(rng.uniform(0, 0.8 * seconds))
        else:  # while the unit is built, looked at and swapped in
            while len(os.listdir(out.parent)) == 1 and is_alive(pid):
                time.sleep(0.0005)
            time.sleep(rng.choice((0.0, rng.uniform(0, 0.02), rng.uniform(0, seconds / 3))))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = server.end()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # a check of kernels that it had begun
        found = snapshot(out)
        assert found in (old, new), f"kill {number}: neither the old unit nor the new one"
        counts["too late" if status == 0 else "old" if found == old else "new"] += 1
        server.run(NEW, out)
        assert snapshot(out) == new
        assert os.listdir(out.parent) == ["unit"], "the re-run removes what the killed one left"
    return counts


def test_a_few_kills_leave_the_old_unit_or_the_new_one(server, tmp_path):
    kill_often(server, tmp_path, N_KILLS_IN_CI, is_edited=False)


@pytest.mark.slow
@pytest.mark.parametrize("is_edited", [False, True])
def test_fifty_kills_leave_the_old_unit_or_the_new_one(server, tmp_path, capsys, is_edited):
    counts = kill_often(server, tmp_path, N_KILLS, is_edited=is_edited)
    with capsys.disabled():
        print(f"killed {'with' if is_edited else 'without'} edits: {counts}")
    assert counts["old"] > 0
