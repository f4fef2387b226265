"""The command over compute-sanitizer, without a GPU: programs that talk like the sanitizer stand in for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.gallery import ROOT
from tests.gpu import sanitize

UNIT = "fused_ops_cuda/column_sum"
CLEAN = "echo '========= ERROR SUMMARY: 0 errors'"
# It finds what is wrong on purpose, but where the filter names another kernel.
SIGHTED = f"""
case "$*" in
*other_kernel*faulty_kernels*) {CLEAN}; exit 0;;
*faulty_kernels*) echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)'; exit 99;;
esac
"""


def launches(number: int) -> str:
    """What every_kernel says of the unit's kernels."""
    return "\n".join(f"echo 'launched {name}: {number}'" for name in sanitize.functions(UNIT))


def told(folder: Path, script: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the last line with a sanitizer that is a script."""
    sanitizer = folder / "sanitizer"
    sanitizer.write_text("#!/bin/bash\n" + script)
    sanitizer.chmod(0o755)
    book = folder / "book.jsonl"
    code = sanitize.main([UNIT, "--sanitizer", str(sanitizer), "--book", str(book), "-j", "2", *words])
    return code, capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("script", "code", "last"),
    [
        (CLEAN, 1, "blind"),
        ("exit 0", 1, "blind"),
        (SIGHTED.replace("*other_kernel*", "*nothing*") + CLEAN, 1, "blind"),  # a filter that does not filter
        (SIGHTED + CLEAN, 1, "no kernel was looked at"),
        (SIGHTED + launches(0) + "\n" + CLEAN, 1, "no kernel was looked at"),
        (SIGHTED + launches(2) + "\nexit 0", 1, "3 pieces failed; no kernel was looked at"),
        (SIGHTED + launches(2) + f"\n{CLEAN}\nexit 1", 1, "3 pieces failed"),
        (SIGHTED + launches(2) + "\necho '===== ERROR SUMMARY: 2 errors'; exit 99", 1, "3 pieces faulty"),
        (SIGHTED + launches(2) + "\n" + CLEAN, 0, "3 pieces good; memcheck: 2 of 2"),
    ],
)
def test_only_what_was_looked_at_is_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, code: int, last: str
) -> None:
    found, line = told(tmp_path, script, capsys)
    assert found == code and last in line, line


def test_a_budget_ends_it_with_its_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = SIGHTED + launches(2) + "\nsleep 60\n" + CLEAN
    code, line = told(tmp_path, slow, capsys, "--budget", "3")
    assert code == 1 and line == "3 pieces left; no kernel was looked at"
    code, line = told(tmp_path, SIGHTED + launches(2) + "\n" + CLEAN, capsys, "--budget", "30")
    assert code == 0 and line.startswith("3 pieces good")


def test_every_kernel_of_the_gallery_is_a_piece() -> None:
    raced = {name for _, _, name in sanitize.pieces(["racecheck"])}
    paths = [path for path in ROOT.glob("**/kernels/*.py") if ".base" not in path.parts]
    jitted = {
        name
        for path in paths
        for name in re.findall(r"^@triton\.jit\ndef (\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert len(raced) > 40 and raced == {name for name in jitted if name.endswith("_kernel")}
