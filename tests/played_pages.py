"""Plays a page of the documentation in a folder: its commands, its Python, its files; compares what is printed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.documented import ROOT, Command, Sample, samples_of

_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
_SECONDS = 600


def play(page: Path, folder: Path) -> int:
    """In order, in one folder; each block of Python goes on where the last one ended.

    Returns:
        How many blocks that a reader sees were run, or written as files.
    """
    python = ["import sys; sys.path.insert(0, '.')\n"]
    printed = ""
    done = 0
    for sample in samples_of(page):
        if sample.file and sample.mark != "not run":
            path = folder / sample.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(sample.text)
        elif not sample.is_run:
            continue
        elif sample.kind == "python":
            python.append(_as_script(sample.text))
            if not sample.hidden:
                path = folder / "samples_in_order.py"
                path.write_text("".join(python))
                printed = type_in(f"python {path.name}", folder, place=str(sample))
        elif sample.kind == "console":
            for command in sample.commands:
                if sample.mark == "ended":
                    _visit(command, folder, sample)
                    continue
                printed = _type(command, folder, sample)
        else:
            _compare(sample.text.splitlines(), printed, sample)
        done += not sample.hidden
    path = folder / "samples_in_order.py"
    if path.exists() and path.read_text() != "".join(python):  # what is looked at after the last block
        path.write_text("".join(python))
        type_in(f"python {path.name}", folder, place=f"the end of {page.name}")
    return done


def _as_script(text: str) -> str:
    """What stands after ``>>>`` has to end in the error that the page shows."""
    if not text.startswith(">>>"):
        return text
    typed, error = text.removeprefix(">>> ").rstrip().split("\n")
    name, _, said = error.partition(": ")
    caught = f"except {name} as error:\n    assert str(error) == {said!r}, error\n"
    return f"try:\n    {typed}\n{caught}else:\n    raise SystemExit('no error')\n"


def type_in(
    command: str, folder: Path, code: int = 0, place: str = "", more: Mapping[str, str] | None = None
) -> str:
    """What a command prints that ends as it should.

    Args:
        command: As for a shell.
        folder: Where it is typed.
        code: Its exit code.
        place: Where it stands on a page.
        more: Of its environment.
    """
    words = ["bash", "-euo", "pipefail", "-c", command]
    environment = _environment(more or {})
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS
    )
    printed = done.stdout + done.stderr
    assert done.returncode == code, f"{place}: {command}\nexit code {done.returncode}\n{printed}"
    return printed


def _type(command: Command, folder: Path, sample: Sample) -> str:
    """On another machine (a folder here) pip has no index, and installs beside what is there."""
    more = {}
    if command.where:
        folder = folder / command.where
        installed = str(folder / "installed")
        more = {"PIP_TARGET": installed, "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PYTHONPATH": installed}
    printed = type_in(command.text, folder, command.code, str(sample), more)
    if sample.mark != "varies":
        _compare(command.shown, printed, sample)
    return printed


def _visit(command: Command, folder: Path, sample: Sample) -> None:
    """A command that serves a page says where; the page is there until Ctrl-C."""
    # bash hands down that SIGINT is ignored, as by what was started in the background.
    handed_down = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command.text}"],
            cwd=folder,
            env=_environment({}),
            stdout=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, handed_down)
    with server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\S+", said := server.stdout.readline())
            assert address, f"{sample}: {said}"
            with urllib.request.urlopen(address[0]) as page:
                assert page.status == 200
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=60) == command.code, sample
        finally:
            server.kill()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """The checkout is for what a page does unseen. Bytecode would hide an edit of equal length within its second."""
    binaries = Path(sys.executable).parent
    fixed = {"OMP_NUM_THREADS": "1", "LONGHAND_CHECKOUT": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return os.environ | fixed | {"PATH": f"{binaries}:{os.environ['PATH']}"} | dict(more)


def _compare(shown: Sequence[str], printed: str, sample: Sample) -> None:
    """Each line that the page shows was printed, in this order; numbers may differ, and ``...`` is left out."""
    rest = found = _comparable(printed)
    for line in shown:
        for piece in map(_comparable, line.split("...")):
            _, there, rest = rest.partition(piece) if piece else ("", " ", rest)
            assert there, f"{sample} shows, and it was not printed:\n{line}\n\n{printed}\n{found}"


def _comparable(text: str) -> str:
    return " ".join(_NUMBER.sub("N", text).split())
