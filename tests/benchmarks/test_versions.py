"""A result is worth little without the versions that it was measured with: every benchmark prints them."""

import platform
from pathlib import Path

import pytest
import torch
import triton

import benchmarks
from benchmarks import report

FOLDER = Path(benchmarks.__file__).parent
# Writes docs/ops.md, which says the version itself.
WRITERS = {"op_table.py"}
PROGRAMS = sorted(
    path for path in FOLDER.glob("*.py") if "def main(" in path.read_text() and path.name not in WRITERS
)


def test_a_line_says_what_results_depend_on():
    line = report.machine("cpu")
    assert f"torch {torch.__version__}, triton {triton.__version__}" in line
    assert f"Python {platform.python_version()}" in line


@pytest.mark.parametrize(
    "path", [*PROGRAMS, FOLDER / "architectures" / "__main__.py"], ids=lambda path: path.name
)
def test_a_benchmark_says_its_versions(path):
    text = path.read_text()
    assert "report.machine(" in text or "report.versions()" in text
