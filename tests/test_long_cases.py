"""tests/long_cases.txt names tests that are there: a line that names none would put nothing off."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_each_line_names_a_test() -> None:
    lines = (ROOT / "tests" / "long_cases.txt").read_text(encoding="utf-8").splitlines()
    for line in (line for line in lines if not line.startswith("#")):
        path, _, case = line.partition("::")
        name = case.partition("[")[0]
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), line
