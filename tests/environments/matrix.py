"""Tests longhand with each pair of Python and torch that can be had here, and writes the table of docs/versions.md.

``python -m tests.environments.matrix`` runs a part of the tests on each pair and whole folders on those that --whole
names (3.13/2.15). A pair needs its Python as a command (python3.12); its environment is made once, in
build/environments. Rows of pairs that did not run stay as they were. Exits with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "versions.md"
START, END = "<!-- matrix: made by `make matrix` -->", "<!-- end of matrix -->"
HEAD = (
    "| Python | torch | triton | numpy | tests | passed | failed | date |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
)
# What can differ between versions: bytecode, private names, units of other versions, launches, the doors of torch.
PART = (
    "tests/capture/bytecode/test_frame_eval.py",
    "tests/capture/bytecode/test_opcodes.py",
    "tests/capture/bytecode/test_toy_python.py",
    "tests/capture/test_torch_private.py",
    "tests/emit/test_launch_arguments.py",
    "tests/environments",
    "tests/longhand/test_backend.py",
    "tests/longhand/test_torch_versions.py",
)
WHOLE = ("tests/capture", "tests/lower", "tests/schedule", "tests/emit", "tests/autograd")
VERSIONS = (
    "import importlib.metadata as m, platform;"
    "print(platform.python_version(), *(m.version(name) for name in ('torch', 'triton', 'numpy')))"
)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A Python and a torch, as in ``3.12/2.11``."""

    python: str
    torch: str

    @property
    def folder(self) -> str:
        return f"py{self.python.replace('.', '')}_torch{self.torch}"


PAIRS = (
    Pair("3.11", "2.11"),
    Pair("3.12", "2.11"),
    Pair("3.12", "2.13"),
    Pair("3.12", "2.15"),
    Pair("3.13", "2.14"),
    Pair("3.13", "2.15"),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What pytest counted."""

    passed: int
    failed: int


def count(output: str) -> Outcome | None:
    """What the last line of pytest says, None if it did not come to an end."""
    lines = [line for line in output.splitlines() if re.search(r"\d+ \w+.* in [\d.]+s", line)]
    if not lines:
        return None
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", lines[-1])}
    return Outcome(counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0))


def environment(pair: Pair, folder: Path) -> Path | None:
    """The Python of the pair's environment, which is made unless it is there; None if it cannot be."""
    python = folder / pair.folder / "bin" / "python"
    if not python.exists():
        wanted = dict(os.environ, PYTHON=f"python{pair.python}", TORCH=f"torch=={pair.torch}.*")
        script = [str(HERE / "create.sh"), str(python.parent.parent)]
        if subprocess.run(script, env=wanted).returncode != 0:
            return None
    install = [str(python), "-m", "pip", "install", "--quiet", "--config-settings", "editable_mode=strict"]
    # Triton 3.6, which comes with torch 2.11, cannot be interpreted with numpy 2.4 (docs/versions.md).
    extra = ["numpy<2.4"] if pair.torch == "2.11" else []
    done = subprocess.run([*install, *extra, "-e", ".[dev]"], cwd=ROOT)
    return python if done.returncode == 0 else None


def run(python: Path, tests: tuple[str, ...]) -> tuple[list[str], Outcome | None]:
    """The versions of the environment, and what became of the tests; pytest's lines are shown as they come."""
    versions = subprocess.run([str(python), "-c", VERSIONS], capture_output=True, text=True, check=True)
    command = [
        str(python),
        "-m",
        "pytest",
        "-o",
        "addopts=--import-mode=importlib",
        "-m",
        "not slow and not gpu",
    ]
    process = subprocess.Popen(
        [*command, *tests],
        cwd=ROOT,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = []
    for line in process.stdout or ():
        print(line, end="", flush=True)
        lines.append(line)
    process.wait()
    return versions.stdout.split(), count("".join(lines))


def write_rows(page: str, rows: dict[str, str]) -> str:
    """The page with these rows in its table; a row is known by its Python and torch, up to the minor version.

    Args:
        page: The text of docs/versions.md.
        rows: The rows by their key, ``3.12/2.11 part``.
    """
    before, rest = page.split(START)
    table, after = rest.split(END)
    known = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.match(r"\d", cells[0]):
            known[key_of(cells)] = line
    lines = [line for _, line in sorted((known | rows).items())]
    return f"{before}{START}\n{HEAD}{''.join(line + chr(10) for line in lines)}{END}{after}"


def key_of(cells: list[str]) -> str:
    """``3.12/2.11 part`` of a row's cells."""
    minors = [".".join(cell.split(".")[:2]) for cell in cells[:2]]
    return f"{'/'.join(minors)} {cells[4]}"


def main() -> int:
    """Runs what the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    names = [f"{pair.python}/{pair.torch}" for pair in PAIRS]
    parser.add_argument("--only", nargs="*", choices=names, default=names, help="these pairs alone")
    parser.add_argument("--whole", nargs="*", choices=names, default=[], help="whole folders on these")
    parser.add_argument("--tests", nargs="*", default=WHOLE, help="the folders that are whole")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "environments")
    given = parser.parse_args()
    failed = False
    for pair, name in zip(PAIRS, names, strict=True):
        if name not in given.only:
            continue
        python = environment(pair, given.environments)
        if python is None:
            print(f"{name} cannot be installed here", file=sys.stderr)
            continue
        tests = tuple(given.tests) if name in given.whole else PART
        versions, outcome = run(python, tests)
        if outcome is None:
            print(f"{name}: pytest did not come to an end", file=sys.stderr)
            failed = True
            continue
        words = ", ".join(test.removeprefix("tests/") for test in tests) if name in given.whole else "part"
        cells = [*versions, words, str(outcome.passed), str(outcome.failed), str(datetime.date.today())]
        PAGE.write_text(write_rows(PAGE.read_text(), {key_of(cells): f"| {' | '.join(cells)} |"}))
        failed |= outcome.failed > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
