"""The command that counts what odd names, lines and locks do: each kind of outcome, on purpose."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longhand.errors import ProofError, UnitError
from tests.attacks import odd


def planted(items: Sequence[Any], folder: Path, seed: int) -> odd.Told:
    """Does what one of the items says."""
    for item in items:
        match item:
            case "executes":
                (folder / "EXECUTED").touch()
            case "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hangs":
                time.sleep(600)
            case "refuses":
                raise UnitError("no")
            case "has a bug":
                raise KeyError("x")
            case "prints what does not run":
                raise ProofError("model.py:1: no")
            case "computes something else":
                raise AssertionError("1 is not 2")
    return "right", ""


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ("executes", "executed"),
        ("dies", "crashed"),
        ("hangs", "hangs"),
        ("refuses", "refused"),
        ("has a bug", "exit code 3"),
        ("prints what does not run", "exit code 3"),
        ("computes something else", "wrong"),
    ],
)
def test_what_is_bad_is_found_among_many(item: str, kind: str) -> None:
    items = ["a", "b", item, "c", "d"]
    found = [(one, what) for what, _, one in odd.outcomes(planted, items, 0, 1.0)]
    assert sorted(found) == sorted((one, kind if one == item else "right") for one in items)


def test_a_few_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert odd.main(["--names", "3", "--lines", "3", "--locks", "15", "--seed", "7"]) == 0
    told = capsys.readouterr().out
    for counted in ("15 locks: 15 right", "3 names: 3 right", "3 lines: 3 right"):
        assert counted in told
