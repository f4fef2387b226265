"""A unit's files and its lock are of one version, whoever dies or writes between any two steps of whoever writes it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.writer import write_unit
from longhand.errors import LonghandError, OutputError
from longhand.staleness.eject import eject
from longhand.tune.tuning import _TunedFile
from tests.attacks.stepwise import interrupt_at, kill_at, n_steps
from tests.emit.merge_units import Files, bytes_of, snapshot, version

KERNEL = "kernels/gelu.py"


STRIDES = pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])


def looked_at(steps: int, stride: int) -> range:
    """The steps of a command that are tried: all of a short one's, each seventh of a long one's in the fast part."""
    return range(1, steps + 1, 1 if steps < 40 else stride)


def signed(**first: object) -> Files:
    """A version whose lock holds the digests of its files, as a real one does."""
    files = version(**first)
    digests = {
        path: hashlib.sha256(content).hexdigest()
        for path, content in bytes_of(files).items()
        if path != LOCK and not path.startswith(".base/")
    }
    lock = {"hashes": digests, "ledger": {}, "kernels": dict.fromkeys(first, "")}
    return {**files, LOCK: json.dumps(lock)}


def assert_whole(out: Path, *, may_have_scraps: bool = False) -> dict[str, object]:
    """Every file is as the lock says, but for what was tuned or ejected; returns the lock."""
    lock = json.loads((out / LOCK).read_text())
    for path, digest in lock["hashes"].items():
        base = (out / ".base" / path).read_bytes()
        assert hashlib.sha256(base).hexdigest() == digest, f".base/{path} is not as its lock says"
        text = (out / path).read_text()
        for name, value in lock.get("tuned", {}).get(path, {}).items():
            text = text.replace(f"{name} = {value}\n", f"{name} = 512\n")
        as_written = hashlib.sha256(text.encode()).hexdigest() == digest
        assert as_written or path in lock.get("ejected", ()), f"{path} is not as its lock says"
    listed = {*lock["hashes"], *(f".base/{path}" for path in lock["hashes"]), LOCK}
    others = {path for path in snapshot(out) if not (path.startswith(".longhand.lock.") and may_have_scraps)}
    assert others - listed == set()
    return lock


def write(out: Path, number: int) -> Callable[[], None]:
    return lambda: write_unit(signed(gelu=number, norm=number), out) and None


def write_and_back(out: Path) -> None:
    """The unit is another one for a moment."""
    write(out, 5)()
    write(out, 3)()


def ejected(out: Path) -> None:
    eject(out / KERNEL)


def tuned(out: Path, value: int = 256) -> None:
    file = _TunedFile(out, "gelu", includes_persons=False)
    if not file.write({"BLOCK": value}):
        raise OutputError("somebody saved it")


def commands(out: Path) -> dict[str, Callable[[], None]]:
    return {
        "write": write(out, 4),
        "write and back": lambda: write_and_back(out),
        "eject": lambda: ejected(out),
        "tune": lambda: tuned(out),
    }


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "kept" / "unit"
    write(folder, 3)()
    return folder


def anew(out: Path) -> None:
    """The unit as it was, and nothing beside it."""
    shutil.rmtree(out.parent)
    write(out, 3)()


@STRIDES
@pytest.mark.parametrize("other", ["write", "write and back", "eject", "tune"])
@pytest.mark.parametrize("command", ["write", "eject", "tune"])
def test_another_command_between_any_two_steps(out: Path, command: str, other: str, stride: int) -> None:
    ours, theirs = commands(out)[command], commands(out)[other]
    steps = n_steps(ours, out)
    assert steps > 5
    for step in looked_at(steps, stride):
        anew(out)
        ours_went, theirs_went = interrupt_at(ours, out, step, theirs)
        lock = assert_whole(out)
        went = {command: ours_went, other: theirs_went}
        assert theirs_went or other == "tune", f"step {step}: {other} failed"
        for each, went_well in went.items():
            if not went_well:
                continue
            if each == "eject":
                assert lock.get("ejected") == [KERNEL], f"step {step}: eject was lost"
            if each == "tune":
                assert "BLOCK = 256" in (out / KERNEL).read_text(), f"step {step}: tune was lost"
                assert lock["tuned"] == {KERNEL: {"BLOCK": 256}}
        assert os.listdir(out.parent) == ["unit"], f"step {step}"


@STRIDES
@pytest.mark.parametrize("exchanges", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("command", ["write", "eject", "tune"])
def test_a_kill_between_any_two_steps(
    out: Path, command: str, exchanges: bool, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the unit is as before or as after; the next run tidies up, and an own value is no person's."""
    if not exchanges:
        monkeypatch.setattr("longhand.emit.unit.on_disk.exchange", lambda *_: False)
    ours = {"tune": lambda: tuned(out, 128)}.get(command, commands(out)[command])
    tuned(out)
    for step in looked_at(n_steps(ours, out), stride):
        anew(out)
        tuned(out)
        kill_at(ours, out, step)
        if exchanges:
            assert_whole(out, may_have_scraps=True)
        write(out, 6)()
        lock = assert_whole(out)
        assert os.listdir(out.parent) == ["unit"], f"step {step}"
        if "ejected" not in lock:
            assert _TunedFile(out, "gelu", includes_persons=False).free, f"step {step}: taken for a person's"


@STRIDES
def test_two_first_writes_at_once(tmp_path: Path, stride: int) -> None:
    out = tmp_path / "kept" / "unit"
    write(out, 3)()
    steps = n_steps(write(out, 4), out)
    for step in looked_at(steps, stride):
        for path in out.parent.iterdir():
            os.rename(path, tmp_path / f"old{step}")
        assert interrupt_at(write(out, 4), out, step, write(out, 5)) == (True, True) or step > steps - 2
        assert_whole(out)
        assert os.listdir(out.parent) == ["unit"]


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was tried for ever."""

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=lambda: (write(tmp_path / "unit", 3)(), write(tmp_path / "unit", 4)()))
    process.start()
    process.join(20)
    hangs = process.is_alive()
    process.kill()
    assert not hangs and process.exitcode == 0
    assert_whole(tmp_path / "unit")
    assert os.listdir(tmp_path) == ["unit"]


def test_a_unit_that_somebody_holds_is_told(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longhand.emit.unit.on_disk.MOST_WAIT_SECONDS", 0.2)
    before = snapshot(out)
    descriptor = os.open(out, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    for command in (lambda: ejected(out), lambda: tuned(out), write(out, 4)):
        with pytest.raises(LonghandError, match=r"Another process has been changing .*unit for 0.2 s"):
            command()
    assert snapshot(out) == before
    os.close(descriptor)
    ejected(out)
