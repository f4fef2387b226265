"""The command over compute-sanitizer, without a GPU: programs that talk like the sanitizer stand in for it.

What kernels are given, and a kernel alone with it, are the real ones, in Triton's interpreter.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from examples.gallery import ROOT
from tests.gpu import sanitize

UNIT, KERNEL = "fused_ops_cuda/column_sum", "column_sum"
CLEAN = "echo '========= ERROR SUMMARY: 0 errors'"
# It finds what is wrong on purpose, and nothing in what is right.
SIGHTED = f"""
case "$*" in
*faulty_kernels\\ right*) {CLEAN}; exit 0;;
*faulty_kernels*) echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)'; exit 99;;
esac
"""
# Runs what it is to look at, and says that nothing is wrong with its memory.
RUNNING = f"""
while [[ $1 == --* ]]; do shift 2; done
"$@"; code=$?
{CLEAN}
exit $code
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the unit's kernel is given, kept by the command itself."""
    folder = tmp_path_factory.mktemp("calls")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        assert not sanitize.record(UNIT, folder, 300.0, 0, ["cpu"])
    finally:
        del os.environ["TRITON_INTERPRET"]
    assert sanitize.is_kept(UNIT, folder)
    return folder


def launches(number: int) -> str:
    """What kernel_alone says of the unit's kernel."""
    return "\n".join(f"echo 'launched {name}: {number}'" for name in sanitize.functions(UNIT, KERNEL))


def told(
    folder: Path, calls: Path, script: str, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str]:
    """The exit code and the last line with a sanitizer that is a script."""
    sanitizer = folder / "sanitizer"
    sanitizer.write_text("#!/bin/bash\n" + script)
    sanitizer.chmod(0o755)
    book = folder / "book.jsonl"
    given = ["--sanitizer", str(sanitizer), "--book", str(book), "--calls", str(calls), "--cpu", "-j", "2"]
    code = sanitize.main([UNIT, *given, *words])
    return code, capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("script", "code", "last"),
    [
        (CLEAN, 1, "blind"),
        ("exit 0", 1, "blind"),
        (SIGHTED.replace("right", "nothing") + CLEAN, 1, "blind"),  # it finds something in everything
        (SIGHTED + CLEAN, 1, "no kernel was looked at"),
        (SIGHTED + launches(0) + "\n" + CLEAN, 1, "no kernel was looked at"),
        (SIGHTED + launches(2) + "\nexit 0", 1, "2 pieces failed; no kernel was looked at"),
        (SIGHTED + launches(2) + f"\n{CLEAN}\nexit 1", 1, "2 pieces failed"),
        (SIGHTED + launches(2) + "\necho '===== ERROR SUMMARY: 2 errors'; exit 99", 1, "2 pieces faulty"),
        (SIGHTED + launches(2) + "\n" + CLEAN, 0, "2 pieces good; memcheck: 2 of 2"),
    ],
)
def test_only_what_was_looked_at_is_good(
    tmp_path: Path, calls: Path, capsys: pytest.CaptureFixture[str], script: str, code: int, last: str
) -> None:
    found, line = told(tmp_path, calls, script, capsys)
    assert found == code and last in line, line


def test_a_budget_ends_it_with_its_summary(
    tmp_path: Path, calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = SIGHTED + launches(2) + "\nsleep 60\n" + CLEAN
    code, line = told(tmp_path, calls, slow, capsys, "--budget", "3")
    assert code == 1 and line == "2 pieces left; no kernel was looked at"
    code, line = told(tmp_path, calls, SIGHTED + launches(2) + "\n" + CLEAN, capsys, "--budget", "30")
    assert code == 0 and line.startswith("2 pieces good")


def test_a_kernel_alone_is_right_and_is_seen(
    tmp_path: Path, calls: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    code, line = told(tmp_path, calls, SIGHTED + RUNNING, capsys)
    assert code == 0 and line == (
        "2 pieces good; memcheck: 2 of 2 kernels were looked at; racecheck: 2 of 2 kernels were looked at"
    )


def test_a_kernel_alone_whose_results_are_others_is_not_good(
    tmp_path: Path, calls: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = torch.load(calls / UNIT / f"{KERNEL}.pt", weights_only=True)
    for call in given:
        call["given"][0].mul_(2)
    (tmp_path / "calls" / UNIT).mkdir(parents=True)
    torch.save(given, tmp_path / "calls" / UNIT / f"{KERNEL}.pt")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    code, line = told(tmp_path, tmp_path / "calls", SIGHTED + RUNNING, capsys)
    assert code == 1 and line.startswith("2 pieces failed")


def test_a_unit_that_does_not_run_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")  # CPU tensors are none for Triton then
    code, line = told(tmp_path, tmp_path / "none", SIGHTED + RUNNING, capsys)
    assert code == 1 and line.startswith("2 pieces failed; no kernel")


def test_nothing_of_the_unit_but_the_kernel_is_imported(calls: Path) -> None:
    code = f"""
import sys
from tests.gpu.kernel_alone import main
assert main([{UNIT!r}, {KERNEL!r}, {str(calls / UNIT / KERNEL) + ".pt"!r}, "cpu"]) == 0
print(*sorted(name for name in sys.modules if name.startswith("column_sum.")))
"""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].split() == [
        "column_sum.kernels",
        f"column_sum.kernels.{KERNEL}",
        "column_sum.runtime",
    ]


def test_every_kernel_of_the_gallery_is_a_piece() -> None:
    raced = [
        (unit, name)
        for _, unit, kernel in sanitize.pieces(["racecheck"])
        for name in sanitize.functions(unit, kernel)
    ]
    paths = [path for path in ROOT.glob("**/kernels/*.py") if ".base" not in path.parts]
    jitted = [
        (path.parent.parent.relative_to(ROOT).as_posix(), name)
        for path in paths
        for name in re.findall(r"^@triton\.jit\ndef (\w+)\(", path.read_text(), re.MULTILINE)
    ]
    assert len(raced) > 50 and sorted(raced) == sorted(one for one in jitted if one[1].endswith("_kernel"))
