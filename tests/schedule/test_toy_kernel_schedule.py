"""A kernel schedule is modules of its own and a line in the list: this one is added to a copy of the product.

docs/adding_a_kernel_schedule.md tells it as a story; its files stand in one_program/, as they would in the product.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.checkout import ROOT, checkout_with, use

ADDED = Path(__file__).resolve().parent / "one_program"
TOUCHED = {
    "schedule/kernels/schedules/registry.py": {
        "    foreach,\n": "    one_program,\n",
        "    foreach.ENTRY,\n": "    one_program.ENTRY,\n",
    },
    "schedule/names/schedule_names.py": {
        "_WORDS = {\n": '    "one_program": ScheduleNames("small", walk="in one program"),\n',
    },
}
USE = """
import sys
from pathlib import Path

import torch

import longhand
from longhand.verify.interpretation import import_on_cpu


class Update(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) + 2 * y


out = Path(sys.argv[1])
for n in (200, 5000):
    torch.manual_seed(n)
    x, y = torch.randn(n), torch.randn(n)
    longhand.generate(Update(), (x, y), out=out / f"on_cpu_{n}")
    longhand.generate(Update(), (x, y), out=out / f"on_cuda_{n}", device="cuda", arch="sm_90", run=False)
    unit = longhand.load(out / f"on_cpu_{n}")()
    torch.testing.assert_close(unit(x, y), Update()(x, y))
    unit = import_on_cpu(f"interpreted_{n}", out / f"on_cuda_{n}").Update()
    torch.testing.assert_close(unit(x, y), Update()(x, y))
"""


def test_modules_and_a_line_are_a_kernel_schedule(tmp_path: Path) -> None:
    assert len(TOUCHED) == 2  # files beside its own
    checkout_with(TOUCHED, tmp_path / "checkout", ADDED)
    done = use(tmp_path / "checkout", USE, tmp_path, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr
    (small,) = (tmp_path / "on_cpu_200" / "kernels").glob("*.cpp")
    (large,) = (tmp_path / "on_cpu_5000" / "kernels").glob("*.cpp")
    assert "little to do" in small.read_text() and "omp" not in small.read_text()
    assert "in one program." in small.read_text() and "little to do" not in large.read_text()
    small, large = (tmp_path / f"on_cuda_{n}" / "kernels" / f"{small.stem}.py" for n in (200, 5000))
    assert "tl.arange(0, COLS)" in small.read_text() and "program_id" not in small.read_text()
    assert "program_id" in large.read_text()


@pytest.mark.parametrize("language", ["triton", "cpp"])
def test_a_printer_that_is_missing_is_named_and_costs_the_kernel(language: str, tmp_path: Path) -> None:
    checkout_with(TOUCHED, tmp_path / "checkout", ADDED)
    (tmp_path / "checkout" / "emit" / language / "schedules" / "one_program.py").unlink()
    done = use(tmp_path / "checkout", USE, tmp_path, TRITON_INTERPRET="1")
    assert f"emit.{language}.schedules.one_program" in done.stderr


def test_nobody_but_what_makes_one_of_another_asks_which_schedule_it_is() -> None:
    """Everybody else asks for a fact, which a new schedule has, too."""
    names = {path.stem.upper() for path in (ROOT / "schedule" / "kernels" / "schedules").glob("*.py")}
    assert {"COLUMNS", "FOREACH"} <= names
    importing = {
        str(path.relative_to(ROOT))
        for room in ("schedule", "emit", "longhand")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and names & {alias.name for alias in node.names}
    }
    assert importing == {"schedule/fusion/horizontal.py"}
    comparing = [
        str(path.relative_to(ROOT))
        for room in ("schedule", "emit", "longhand")
        for path in (ROOT / room).rglob("*.py")
        if re.search(r"schedule\.name (==|!=|in|not in) ", path.read_text(encoding="utf-8"))
    ]
    assert not comparing
