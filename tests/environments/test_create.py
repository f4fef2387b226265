"""The environment of `make`: which Python, which torch."""

from __future__ import annotations

import os
import runpy
import stat
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LISTING = "torch (2.16.0)\nAvailable versions: {}\n  INSTALLED: 2.12.0"


@pytest.fixture(scope="module")
def create() -> dict[str, object]:
    return runpy.run_path(str(HERE / "create.py"))


@pytest.mark.parametrize(
    ("versions", "build"),
    [
        ("2.16.0+cpu, 2.15.0, 2.13.0+cpu, 2.13.0, 2.12.0+cpu", "2.13.0+cpu"),
        ("2.15.0, 2.14.1", None),
        ("2.10.0+cpu", None),
    ],
)
def test_the_newest_build_without_cuda(create, versions, build):
    assert create["newest_cpu_build"](LISTING.format(versions)) == build


def test_no_listing_is_no_build(create):
    assert create["newest_cpu_build"]("ERROR: No matching distribution found for torch") is None


def test_releases_only(create):
    assert create["is_supported"]("2.15.1") and create["is_supported"]("2.11.0+cu130")
    assert not create["is_supported"]("2.15.0a0+git1234") and not create["is_supported"]("2.9.1")


def _command(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _made(commands: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """create.sh where `commands` are the only Pythons there are."""
    for tool in ("dirname", "sh"):
        if not (commands / tool).exists():
            (commands / tool).symlink_to(f"/usr/bin/{tool}")
    environment = {"PATH": str(commands), **variables}
    script = [str(HERE / "create.sh"), "FOLDER"]
    return subprocess.run(script, env=environment, capture_output=True, text=True)


_WORKS = '[ "$1" = -c ] || echo "$0 makes $2"'
_INSTALLS_NOTHING = '[ "$1" = -c ] || { echo "no torch for $0" >&2; exit 1; }'


@pytest.mark.skipif(not os.path.exists("/usr/bin/dirname"), reason="no /usr/bin/dirname")
def test_the_newest_python_that_works(tmp_path):
    _command(tmp_path, "python3.13", "exit 127")  # a shim
    _command(tmp_path, "python3.12", _INSTALLS_NOTHING)
    _command(tmp_path, "python3.11", _WORKS)
    _command(tmp_path, "python3", "echo never asked")
    done = _made(tmp_path)
    assert done.returncode == 0
    assert done.stdout == f"{tmp_path}/python3.11 makes FOLDER\n"
    assert done.stderr == f"no torch for {tmp_path}/python3.12\n"


@pytest.mark.skipif(not os.path.exists("/usr/bin/dirname"), reason="no /usr/bin/dirname")
def test_python_is_chosen(tmp_path):
    _command(tmp_path, "python3.13", _WORKS)
    _command(tmp_path, "python3.11", _WORKS)
    assert _made(tmp_path, PYTHON="python3.11").stdout == f"{tmp_path}/python3.11 makes FOLDER\n"
    refused = _made(tmp_path, PYTHON="python3.12")
    assert refused.returncode == 1
    assert "PYTHON=python3.12 does not run." in refused.stderr and "makes" not in refused.stdout


_NAME = f"python3.{sys.version_info[1]}"
_FAST = '[ "$1" = -I ] && echo 0 || echo "$0 makes $2 for $PYTHON"'


def test_faster_pythons_of_this_version(create, tmp_path, monkeypatch):
    """This one's own seconds are 1; a link to it is no other, and what does not run or is hardly faster is none."""
    said = {"slow": "echo 0.9", "shim": "exit 127", "fast": "echo 0.5", "faster": "echo 0.4"}
    for name, script in said.items():
        (tmp_path / name).mkdir()
        _command(tmp_path / name, _NAME, script)
    _command(tmp_path, "own", "echo 1")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / _NAME).symlink_to(tmp_path / "own")
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / name) for name in [*said, "link", "nowhere"]))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "own"))
    found = create["faster_pythons"]()
    assert found == [str(tmp_path / name / _NAME) for name in ("faster", "fast")]


def test_the_faster_makes_the_environment(tmp_path):
    _command(tmp_path, _NAME, _FAST)
    command = [sys.executable, str(HERE / "create.py"), str(tmp_path / "made")]
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHON": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    fast = tmp_path / _NAME
    assert (done.returncode, done.stdout) == (0, f"{fast} makes {tmp_path}/made for {fast}\n"), done.stderr


def test_what_is_asked_for_makes_it(create, tmp_path, monkeypatch):
    _command(tmp_path, _NAME, _FAST)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYTHON", _NAME)
    assert not create["made_by_a_faster"](tmp_path / "made")
