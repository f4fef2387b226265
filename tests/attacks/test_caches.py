"""What is kept between runs is this user's own, whole, and never waited for without end."""

import fcntl
import os
import random
import shutil
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from longhand.cache.folder import cached_unit, unit_key
from longhand.cache.owned_folder import strange_parent
from longhand.capture.frontends.export import capture_export
from longhand.emit.unit.on_disk import locked, scratch_beside
from longhand.emit.unit.writer import write_unit
from longhand.errors import OutputError, UnitError
from longhand.options import Device, Options, Target
from tests.emit.cpp_kernels import runtime_in
from tests.emit.merge_units import KERNEL, version

CPU = Options(Target(Device.CPU))
SCALE = """extern "C" void scale(const float *x, float *out, long n, double factor) {
  for (long i = 0; i < n; ++i) out[i] = x[i] * static_cast<float>(factor);
}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache" / "longhand"))
    (tmp_path / "unit" / "kernels").mkdir(parents=True)
    (tmp_path / "unit" / "kernels" / "scale.cpp").write_text(SCALE)
    return tmp_path / "unit"


def damages():
    yield "half", lambda content: content[: len(content) // 2]
    yield "a page", lambda content: content[:4096]
    yield "nothing", lambda content: b""
    yield "random bytes", lambda content: random.Random(0).randbytes(len(content))
    yield "one bit", lambda content: content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]


@pytest.mark.parametrize("kind", [kind for kind, _ in damages()])
def test_a_damaged_build_is_built_again(folder, kind):
    """Loaded as it is, it would end the process."""
    runtime = runtime_in(folder)
    built = runtime.build(folder / "kernels" / "scale.cpp")
    content = built.read_bytes()
    built.unlink()
    built.write_bytes(dict(damages())[kind](content))
    runtime = runtime_in(folder)
    x = torch.ones(2)
    runtime.load_kernel("scale.cpp")(x, x, 2, 3.0)
    assert x.tolist() == [3.0, 3.0] and len(built.read_bytes()) == len(content)


def test_a_build_without_its_digest_or_of_another_user_is_built_again(folder, monkeypatch):
    runtime = runtime_in(folder)
    built = runtime.build(folder / "kernels" / "scale.cpp")
    assert runtime._is_whole(built)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 12345)
        assert not runtime._is_whole(built)
    built.with_suffix(".sha256").unlink()
    assert not runtime._is_whole(built)
    assert runtime.build(folder / "kernels" / "scale.cpp") == built and runtime._is_whole(built)


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder to another user")
@pytest.mark.parametrize("owner", ["another user", "everybody", "another group"])
def test_a_cache_below_a_folder_of_another_user(folder, tmp_path, owner):
    (tmp_path / "cache").mkdir(mode=0o755)
    if owner == "another user":
        os.chown(tmp_path / "cache", 12345, 0)
    elif owner == "everybody":
        (tmp_path / "cache").chmod(0o777)
    else:
        os.chown(tmp_path / "cache", 0, 12345)
        (tmp_path / "cache").chmod(0o775)
    runtime = runtime_in(folder)
    with pytest.raises(runtime.KernelBuildError, match=f"{tmp_path / 'cache'} is theirs"):
        runtime.load_kernel("scale.cpp")
    with pytest.raises(OutputError, match=f"{tmp_path / 'cache'} is theirs"):
        cached_unit(graph(), CPU, writer([]))


def test_whose_folders_are_trusted(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert strange_parent(inner) is None
    (tmp_path / "a").chmod(0o1777)
    assert strange_parent(inner) is None, "others may add names there, as in /tmp, and take none away"
    (tmp_path / "a").chmod(0o777)
    (tmp_path / "link").symlink_to(inner)
    assert strange_parent(inner) == strange_parent(tmp_path / "link") == tmp_path / "a"


def double(x):
    return x * 2


def graph():
    return capture_export(double, (torch.ones(3),), {}, target=CPU.target)


def writer(made):
    def make(out):
        made.append(out)
        (out / "kernels").mkdir(parents=True)
        (out / "model.py").write_text("a = 1\nb = 2\n")
        (out / "kernels" / "double.cpp").write_text(SCALE)

    return make


@pytest.mark.parametrize("path", ["model.py", "kernels/double.cpp", ".whole"])
@pytest.mark.parametrize("kind", ["half", "nothing", "random bytes", "gone", "a pipe"])
def test_a_damaged_unit_is_made_again(folder, path, kind):
    made = []
    unit = cached_unit(graph(), CPU, writer(made))
    assert cached_unit(graph(), CPU, writer(made)) == unit and len(made) == 1
    content = (unit / path).read_bytes()
    (unit / path).unlink()
    if kind == "a pipe":
        os.mkfifo(unit / path)
    elif kind != "gone":
        (unit / path).write_bytes(dict(damages())[kind](content))
    assert cached_unit(graph(), CPU, writer(made)) == unit and len(made) == 2
    assert (unit / "model.py").read_text() == "a = 1\nb = 2\n"
    assert cached_unit(graph(), CPU, writer(made)) == unit and len(made) == 2
    assert [path.name for path in unit.parent.iterdir() if path.is_dir()] == [unit.name]
    assert unit.name.endswith(unit_key(graph(), CPU))


def test_a_scratch_folder_of_a_living_run_stays(tmp_path):
    """Of one whose process id means nobody here: it runs in another container."""
    import contextlib

    out = tmp_path / "unit"
    code = f"""
        import contextlib, pathlib, sys
        from longhand.emit.unit.on_disk import scratch_beside
        with contextlib.ExitStack() as held:
            print(scratch_beside(pathlib.Path({str(out)!r}), held), flush=True)
            sys.stdin.read()
        """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        theirs = Path(other.stdout.readline().strip())
        elsewhere = theirs.with_name(".unit.longhand-99999999-abc")  # as an earlier longhand named it
        elsewhere.mkdir()
        write_unit(version(gelu=3), out)
        assert theirs.is_dir() and not elsewhere.exists()
        other.kill()
    write_unit(version(gelu=4), out)
    assert not theirs.exists() and (out / "kernels/gelu.py").read_text() == KERNEL.format(
        name="gelu", first=4
    )
    with contextlib.ExitStack() as held:
        mine = scratch_beside(out, held)
        with pytest.raises(BlockingIOError):
            locked(mine)
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.name, "unit"]


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_hung_compiler_is_ended(folder, tmp_path, monkeypatch):
    runtime = runtime_in(folder)
    runtime.COMPILER = script(tmp_path / "hung", "sleep 1000 & wait")
    runtime.MOST_BUILD_SECONDS = 0.5
    begin = time.monotonic()
    with pytest.raises(runtime.KernelBuildError, match=r"ended after 0.5 s: try it by hand: .*unit.cpp"):
        runtime.load_kernel("scale.cpp")
    assert time.monotonic() - begin < 30


def test_a_lock_that_somebody_holds_is_told(folder):
    runtime = runtime_in(folder)
    runtime.MOST_LOCK_SECONDS = 0.3
    with open(runtime._cache_folder() / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(runtime.KernelBuildError, match=r"held .*\.lock for 0.3 s: end it"):
            runtime.load_kernel("scale.cpp")
    runtime_in(folder).load_kernel("scale.cpp")


def test_a_kernel_without_end_is_told(tmp_path, monkeypatch):
    from longhand.verify.checking import run_worker

    (tmp_path / "endless_worker.py").write_text("while True: pass\n")
    (tmp_path / "longhand.lock").write_text("{}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("LONGHAND_WORKER_SECONDS", "0.5")
    with pytest.raises(
        UnitError, match=r"does not end: a kernel of it.*after 0.5 s.*LONGHAND_WORKER_SECONDS"
    ):
        run_worker("endless_worker", tmp_path)


def test_several_words_for_a_compiler(folder, tmp_path, monkeypatch):
    runtime = runtime_in(folder)
    runtime.COMPILER = f"{script(tmp_path / 'wrapper', 'exec ' + chr(34) + '$@' + chr(34))} g++"
    x = torch.ones(2)
    runtime.load_kernel("scale.cpp")(x, x, 2, 3.0)
    assert x.tolist() == [3.0, 3.0]
    from longhand.emit.cpp.syntax import syntax_errors

    monkeypatch.setenv("CXX", runtime.COMPILER)
    (folder / "kernels" / "broken.cpp").write_text("nonsense\n")
    assert [error.line for error in syntax_errors(folder, ["scale", "broken"])] == [1]


def test_a_compiler_s_words_in_another_encoding(folder, tmp_path):
    runtime = runtime_in(folder)
    runtime.COMPILER = script(tmp_path / "french", "printf 'erreur: d\\351clar\\351\\n' >&2; exit 1")
    with pytest.raises(runtime.KernelBuildError, match=r"erreur: d.clar"):
        runtime.load_kernel("scale.cpp")


def test_nothing_is_left(folder):
    runtime = runtime_in(folder)
    runtime.load_kernel("scale.cpp")
    cache = runtime._cache_folder()
    assert sorted(path.suffix for path in cache.iterdir()) == ["", ".sha256", ".so"]
    shutil.rmtree(cache)
