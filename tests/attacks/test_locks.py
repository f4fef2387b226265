"""Whatever longhand.lock holds: nothing of it runs, nothing crashes, nothing waits, and the answer is in words."""

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest
import torch

import longhand
import longhand.cli.commands  # here, and not while the clock runs
from longhand import cli
from longhand.emit.unit.lock_file import LOCK, is_path, parsed, sides
from longhand.emit.unit.writer import read_ledger, write_unit
from longhand.errors import LonghandError, UnitError
from longhand.schedule.names.unit_names import Ledger
from tests.attacks.odd_locks import POISON, odd_locks
from tests.emit.merge_units import version

ROOT = Path(__file__).resolve().parents[2]
REAL = json.loads((ROOT / "generated" / "attention_cpu" / LOCK).read_text())
COUNT = 1000
IN_CI = 100
LONGEST = 10.0  # seconds


@pytest.fixture
def unit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LONGHAND_TRUST", raising=False)
    write_unit(version(gelu=3, norm=4), tmp_path / "unit")
    return tmp_path / "unit"


def commands(unit, capsys):
    """What looks at a unit: none may find a bug in longhand, nor take long."""
    for words in (["check"], ["diff"], ["diff", "--markdown"], ["diff", "--stat"], ["view"]):
        begin = time.monotonic()
        cli.run([*words, str(unit)])
        shown = capsys.readouterr()
        assert "bug in longhand" not in shown.err and "Traceback" not in shown.err, (words, shown.err)
        assert time.monotonic() - begin < LONGEST, words
        assert "\x1b[2J" not in shown.out + shown.err
    assert not list(unit.parent.rglob("EXECUTED*"))


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=() if part == 0 else pytest.mark.slow) for part in range(COUNT // IN_CI)],
)
def test_odd_locks(part, unit, capsys):
    for number, content in enumerate(odd_locks(IN_CI, REAL, seed=part)):
        (unit / LOCK).write_bytes(content)
        commands(unit, capsys)
        ledger = None
        try:
            ledger = read_ledger(unit)
            write_unit(version(gelu=number, norm=4), unit)
        except LonghandError:
            continue
        for names in ledger.kernels.values() if ledger is not None else ():
            words = [*names.pointers.values(), *names.values.values(), names.kernel]
            assert all(word.isidentifier() and word.isascii() for word in words)
        shutil.rmtree(unit)
        write_unit(version(gelu=3, norm=4), unit)
    assert not list(unit.parent.rglob("EXECUTED*"))


def other_files(folder):
    """(what it is, makes it at a path)"""
    yield "a pipe", os.mkfifo
    yield "a folder", os.mkdir
    yield "a socket", lambda path: socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))
    yield "a link to a device", lambda path: os.symlink("/dev/zero", path)
    yield "a link to itself", lambda path: os.symlink(path, path)
    yield "a link to nothing", lambda path: os.symlink("nowhere", path)
    yield "20 GB", lambda path: path.touch() or os.truncate(path, 20 << 30)


@pytest.mark.parametrize("kind", [kind for kind, _ in other_files(None)])
@pytest.mark.parametrize("path", [LOCK, "kernels/gelu.py", ".base/model.py"])
def test_what_is_no_plain_file(kind, path, unit, capsys):
    (unit / path).unlink()
    dict(other_files(unit))[kind](unit / path)
    commands(unit, capsys)
    begin = time.monotonic()
    with pytest.raises(LonghandError):
        write_unit(version(gelu=5, norm=4), unit)
        raise UnitError("written")
    assert time.monotonic() - begin < LONGEST


def test_a_later_format_is_told(unit):
    (unit / LOCK).write_text(json.dumps({**REAL, "format": 99}))
    with pytest.raises(UnitError, match="format 99"):
        write_unit(version(gelu=5, norm=4), unit)


def test_what_longhand_writes_passes():
    for lock in sorted((ROOT / "generated").glob(f"*/{LOCK}")):
        found = parsed(lock.read_bytes())
        assert Ledger.from_json(found["ledger"]).to_json() == found["ledger"], lock


def test_paths_stay_inside():
    assert is_path("kernels/gelu.py") and is_path(".base/model.py")
    assert not any(map(is_path, ("", "/etc/passwd", "../x", "a/../../b", "a\nb", "a\\b", None, 3)))


def test_many_conflict_markers_are_read_once():
    begin = time.monotonic()
    assert len(sides(b"<<<<<<< a\n" * 500_000)) == 1
    assert sides(b"a\n<<<<<<< x\nb\n||||||| y\nz\n=======\nc\n>>>>>>> w\nd\n") == [b"a\nb\nd\n", b"a\nc\nd\n"]
    assert time.monotonic() - begin < LONGEST


class Scaled(torch.nn.Module):
    def forward(self, x, y):
        total = torch.tanh(x) * y
        return total.exp()


def test_a_poisoned_ledger_is_not_written(tmp_path, monkeypatch):
    """Each word of the ledger in turn becomes a line of its own: none gets into a file of the unit."""
    monkeypatch.chdir(tmp_path)
    args = (torch.randn(4, 8), torch.randn(4, 8))
    longhand.generate(Scaled().eval(), args, out="unit", device="cpu")
    lock = json.loads(Path("unit", LOCK).read_text())
    plain = {path: path.read_text() for path in Path("unit").rglob("*.*") if path.suffix in (".cpp", ".py")}
    entry = next(iter(lock["ledger"].values()))
    poisons = [
        ("kernel", POISON),
        ("title", POISON),
        ("notes", [POISON, '"""', "*/ x"]),
        ("kernel", "../../evil"),
    ]
    poisons += [("pointers", [[name, POISON] for name, _ in entry["pointers"]])]
    poisons += [("axes", [[name, POISON, POISON] for name, *_ in entry["axes"]])]
    poisons += [("values", dict.fromkeys(entry["values"], POISON)), ("constants", {"0": POISON})]
    poisons += [("quotes", [[POISON, POISON]])]
    for field, value in poisons:
        poisoned = json.loads(json.dumps(lock))
        next(iter(poisoned["ledger"].values()))[field] = value
        Path("unit", LOCK).write_text(json.dumps(poisoned))
        longhand.generate(Scaled().eval(), args, out="unit", device="cpu")
        assert plain == {path: path.read_text() for path in plain}, field
    assert sorted(path.name for path in tmp_path.iterdir()) == ["unit"]
