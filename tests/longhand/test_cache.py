"""The cache folder: keyed by content, owned by the user, bounded, complete or absent."""

import os
import time

import pytest
import torch

from longhand.cache import bound
from longhand.cache.folder import cache_folder, cached_unit, unit_key
from longhand.capture.frontends.export import capture_export
from longhand.errors import OutputError
from longhand.options import Device, Options, Target

CPU = Options(Target(Device.CPU))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def captured(function, *args):
    return capture_export(function, args, {}, target=CPU.target)


def double(x):
    return x * 2


def triple(x):
    return x * 3


def writer(size=1):
    def make(out):
        out.mkdir(parents=True)
        (out / "model.py").write_bytes(b"#" * size)

    return make


def test_a_unit_is_made_once():
    graph = captured(double, torch.ones(3))
    made = []

    def make(out):
        made.append(out)
        writer()(out)

    first = cached_unit(graph, CPU, make)
    assert cached_unit(captured(double, torch.ones(3)), CPU, make) == first
    assert len(made) == 1 and (first / "model.py").exists()


def test_the_key_depends_on_graph_shapes_dtypes_and_options():
    keys = {
        unit_key(captured(double, torch.ones(3)), CPU),
        unit_key(captured(triple, torch.ones(3)), CPU),
        unit_key(captured(double, torch.ones(4)), CPU),
        unit_key(captured(double, torch.ones(3, dtype=torch.float64)), CPU),
        unit_key(captured(double, torch.ones(6).view(2, 3).t()), CPU),
        unit_key(captured(double, torch.ones(2, 3).t().contiguous()), CPU),
        unit_key(captured(double, torch.ones(3)), Options(Target(Device.CUDA, "sm_90"))),
    }
    assert len(keys) == 7


def test_the_key_depends_on_the_values_of_constants():
    def with_constant(value):
        constant = torch.tensor([value, 1.0])
        return captured(lambda x: x * constant, torch.ones(2))

    assert unit_key(with_constant(2.0), CPU) == unit_key(with_constant(2.0), CPU)
    assert unit_key(with_constant(2.0), CPU) != unit_key(with_constant(3.0), CPU)


def test_a_failed_unit_leaves_nothing(folder):
    def make(out):
        writer()(out)
        raise OutputError("the disk is full")

    with pytest.raises(OutputError):
        cached_unit(captured(double, torch.ones(3)), CPU, make)
    assert list((folder / "units").iterdir()) == []


def test_a_unit_that_another_process_finished_first_is_taken(folder):
    graph = captured(double, torch.ones(3))
    name = f"double_{unit_key(graph, CPU)}"

    def make(out):
        writer()(out)
        theirs = folder / "units" / name
        theirs.mkdir()
        (theirs / "model.py").write_text("theirs")

    assert (cached_unit(graph, CPU, make) / "model.py").read_text() == "theirs"


def test_the_folder_is_private(folder):
    assert cache_folder().stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_write_into_is_refused(folder):
    cache_folder().chmod(0o777)
    with pytest.raises(OutputError, match="Others may write"):
        cache_folder()


def test_a_folder_of_somebody_else_is_refused(folder, monkeypatch):
    cache_folder()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(OutputError, match="not yours"):
        cache_folder()


def test_a_link_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    folder.mkdir(mode=0o700)
    (folder / "units").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="not yours"):
        cache_folder()


def test_units_unused_for_longest_make_room(monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_LIMIT_MB", "1")
    old, recent = (cached_unit(captured(f, torch.ones(3)), CPU, writer(600_000)) for f in (double, triple))
    long_ago = time.time() - 10 * 3600
    os.utime(old, (long_ago, long_ago))
    cached_unit(captured(double, torch.ones(5)), CPU, writer(600_000))
    assert not old.exists() and recent.exists()


def test_what_was_used_within_the_hour_stays(monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_LIMIT_MB", "0")
    units = [cached_unit(captured(f, torch.ones(3)), CPU, writer(10)) for f in (double, triple)]
    assert all(unit.exists() for unit in units) and bound._RECENT >= 3600


@pytest.fixture
def counts(monkeypatch):
    """The sizes that were found whenever all units were counted."""
    found, tidy = [], bound._tidy

    def counting(folder, limit):
        found.append(tidy(folder, limit))
        return found[-1]

    monkeypatch.setattr(bound, "_tidy", counting)
    return found


def units_of(n_bytes, n_units, start=0):
    made = []
    for size in range(start, start + n_units):
        made.append(cached_unit(captured(double, torch.ones(3 + size)), CPU, writer(n_bytes)))
    return made


def test_all_units_are_not_counted_for_each_that_is_made(counts, folder):
    units_of(10, 6)
    assert len(counts) == 1
    (folder / "units/.lock").write_text("damaged")
    units_of(10, 3, start=6)
    assert len(counts) == 2 and counts[1] > counts[0]


def test_another_bound_is_looked_at_at_once(counts, monkeypatch):
    old, _ = units_of(600_000, 2)
    os.utime(old, (time.time() - 10 * 3600,) * 2)
    monkeypatch.setenv("LONGHAND_CACHE_LIMIT_MB", "1")
    units_of(10, 1, start=2)
    assert len(counts) == 2 and not old.exists()


def test_what_may_not_be_removed_is_not_counted_each_time_either(counts, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_LIMIT_MB", "1")
    units_of(400_000, 3)
    assert len(counts) == 2  # the first of all, and the one that passed the bound
    units_of(10, 3, start=3)
    assert len(counts) == 2
    units_of(100_000, 1, start=6)
    assert len(counts) == 3


def test_what_another_process_removes_meanwhile_is_no_obstacle(monkeypatch, tmp_path):
    """Two processes make units at once: one looks how large the folder is while the other tidies up behind itself."""
    made = tmp_path / "longhand" / "units"
    (made / "unit" / ".base").mkdir(parents=True)
    for name in ("whole", "gone"):
        (made / "unit" / ".base" / name).write_bytes(b"12345")
    seen = list(os.walk(made / "unit"))
    monkeypatch.setattr(bound.os, "walk", lambda place: seen)
    (made / "unit/.base/gone").unlink()
    assert bound._size_of(made / "unit") == 5
    assert bound._used(made / "unit that was there") > 1e9
