"""``python -m tests.gpu.sanitize -j 8 --budget 480``: compute-sanitizer over every CUDA kernel of the gallery.

memcheck takes a unit at a time; racecheck, which slows a kernel down a thousandfold, one kernel: the unit runs, and
only launches of that kernel are looked at. Each piece is a process with a time limit, ``-j`` at once, over all GPUs.
What came of it is kept in ``--book``, a line of JSON each, and not done again unless it took too long or was not seen
(or ``--again``); ``--budget 480`` ends after eight minutes.

A line a kernel tells how often it was launched under the sanitizer: one that was never is ``unseen``, not good. Before
all that, kernels that are wrong on purpose must be found, and must not be where the filter names another kernel: else
nothing is good. Ends with 1 if a kernel was not good or none was seen, with 2 if some are left.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from examples.gallery import ROOT, entries

FAULTY = 99  # what compute-sanitizer ends with where it finds something
SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) ", re.MULTILINE)
LAUNCHED = re.compile(r"^launched (\w+): (\d+)$", re.MULTILINE)  # as every_kernel prints it
TOOLKIT = "/usr/local/cuda/bin/compute-sanitizer"
LEFT = ("too long", "left")
Piece = tuple[str, str, str]  # the tool, the unit, the kernel's function; no function: all of them


class Found(NamedTuple):
    """What came of a piece: good, faulty, failed, unseen or too long; launches of each kernel; what was said."""

    verdict: str
    launches: dict[str, int]
    seconds: float
    said: str


def functions(unit: str) -> list[str]:
    """The kernels of a unit."""
    paths = sorted((ROOT / unit / "kernels").glob("*.py"))
    return [
        name for path in paths for name in re.findall(r"^def (\w+_kernel)\(", path.read_text(), re.MULTILINE)
    ]


def pieces(tools: list[str]) -> Iterator[Piece]:
    """What there is to do."""
    for tool in tools:
        for entry in entries():
            if entry.device == "cuda":
                for function in functions(entry.path) if tool == "racecheck" else [""]:
                    yield tool, entry.path, function


def command(sanitizer: str, tool: str, function: str, module: str, word: str) -> list[str]:
    """What looks at the launches of a kernel, or of all, of a module that is run."""
    chosen = ["--kernel-name", f"kernel_substring={function}"] if function else []
    looked_at = [sanitizer, "--tool", tool, "--error-exitcode", str(FAULTY), *chosen]
    return [*looked_at, sys.executable, "-m", f"tests.gpu.{module}", word]


def run(words: list[str], seconds: float, device: int) -> tuple[str, str]:
    """good, faulty, failed or too long; and all that was said."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": str(device), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, env=environment
    ) as process:
        try:
            said = process.communicate(timeout=seconds)[0].decode(errors="replace")
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started, too
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return "too long", f"{seconds:.0f} s"
    return judged(process.returncode, said), said


def judged(code: int, said: str) -> str:
    """What an exit code and the sanitizer's own summary tell: neither is believed alone."""
    summaries = [int(number) for number in SUMMARY.findall(said)]
    if any(summaries):
        return "faulty"
    return "good" if summaries and code == 0 else "failed"


def look(piece: Piece, sanitizer: str, seconds: float, device: int) -> Found:
    """Runs a piece."""
    tool, unit, function = piece
    began = time.monotonic()
    verdict, said = run(command(sanitizer, tool, function, "every_kernel", unit), seconds, device)
    counts = Counter({name: int(count) for name, count in LAUNCHED.findall(said)})
    launches = {name: counts[name] for name in ([function] if function else functions(unit))}
    if verdict == "good" and not (launches and all(launches.values())):
        verdict = "unseen"
    kept = "" if verdict == "good" else said[-4000:]
    return Found(verdict, launches, round(time.monotonic() - began, 1), kept)


def blindness(sanitizer: str, tools: list[str], seconds: float) -> list[str]:
    """Where the sanitizer does not find what is wrong on purpose, or looks at kernels that its filter does not name."""
    controls = {
        "memcheck": [("outside", "", "faulty")],
        "racecheck": [
            ("racing", "", "faulty"),
            ("racing", "racing_kernel", "faulty"),
            ("racing", "other_kernel", "good"),
        ],
    }
    wanted = [(tool, *control) for tool in tools for control in controls[tool]]

    def tried(control: tuple[str, str, str, str]) -> str:
        tool, word, function, expected = control
        verdict, said = run(command(sanitizer, tool, function, "faulty_kernels", word), seconds, 0)
        print(f"control: {tool} of {word}_kernel, filter {function or 'none'}: {verdict}", flush=True)
        words = f"{tool} of {word}_kernel, filter {function or 'none'}: {verdict}, expected {expected}"
        return "" if verdict == expected else f"{words}\n{said[-3000:]}"

    with concurrent.futures.ThreadPoolExecutor(max(len(wanted), 1)) as pool:
        return [words for words in pool.map(tried, wanted) if words]


def lines(piece: Piece, found: Found) -> str:
    """One line a kernel, and what was said where it is not good."""
    tool, unit, _ = piece
    told = []
    for name, count in found.launches.items():
        verdict = "unseen" if found.verdict == "good" and not count else found.verdict
        told.append(f"{verdict:<8} {tool:<9} {unit} {name}: {count} launches, {found.seconds} s")
    return "\n".join([*told, found.said]).rstrip()


class Book:
    """What came of pieces, kept in a file as it comes."""

    def __init__(self, path: Path, *, again: bool) -> None:
        self.path = path
        self.found: dict[Piece, Found] = {}
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() and not again else ():
            piece, found = json.loads(line)
            self.found[tuple(piece)] = Found(*found)

    def add(self, piece: Piece, found: Found) -> None:
        """Keeps and prints what came of a piece."""
        with self._lock, self.path.open("a") as file:
            self.found[piece] = found
            file.write(json.dumps([piece, found]) + "\n")
            print(lines(piece, found), flush=True)

    def is_left(self, piece: Piece) -> bool:
        """Whether a piece is to be done."""
        return piece not in self.found or self.found[piece].verdict in ("too long", "unseen", "failed")

    def summary(self, wanted: list[Piece]) -> tuple[str, int]:
        """Words on the pieces, and the exit code that they ask for."""
        verdicts = Counter(self.found[piece].verdict if piece in self.found else "left" for piece in wanted)
        seen: dict[str, set[tuple[str, str]]] = {}
        for piece in wanted:
            for name, count in self.found[piece].launches.items() if piece in self.found else ():
                if count and self.found[piece].verdict in ("good", "faulty"):
                    seen.setdefault(piece[0], set()).add((piece[1], name))
        words = ", ".join(f"{count} pieces {verdict}" for verdict, count in verdicts.most_common())
        kernels = {tool: sum(len(functions(unit)) for unit in {p[1] for p in wanted}) for tool in seen}
        words += "".join(
            f"; {tool}: {len(seen[tool])} of {kernels[tool]} kernels were looked at" for tool in sorted(seen)
        )
        if not seen:
            return f"{words or 'nothing to do'}; no kernel was looked at", 1
        is_bad = bool(set(verdicts) - {"good", *LEFT})
        return words, 1 if is_bad else 2 if set(verdicts) & set(LEFT) else 0


def main(words: list[str] | None = None) -> int:
    """Does what is left, and prints what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("units", nargs="*", help="words in their paths; all by default")
    parser.add_argument("--tools", default="memcheck,racecheck")
    parser.add_argument("-j", type=int, default=1, help="pieces at once")
    parser.add_argument("--book", type=Path, default=Path("build/sanitized_cuda.jsonl"))
    parser.add_argument("--timeout", type=float, default=400.0, help="seconds for a piece")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    parser.add_argument("--again", action="store_true", help="also what was done")
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer") or TOOLKIT)
    options = parser.parse_args(words)
    deadline = time.monotonic() + options.budget
    tools = options.tools.split(",")
    blind = blindness(options.sanitizer, tools, min(120.0, options.budget))
    if blind:
        print("\n".join([*blind, "the sanitizer is blind: nothing was looked at"]))
        return 1
    book = Book(options.book, again=options.again)
    wanted = [p for p in pieces(tools) if not options.units or any(word in p[1] for word in options.units)]
    # What took too long before comes last; of the others the longest units first.
    order = sorted(wanted, key=lambda piece: (piece in book.found, -len(functions(piece[1]))))
    devices = itertools.cycle(range(max(torch.cuda.device_count(), 1)))

    def work(piece: Piece, device: int) -> None:
        left = deadline - time.monotonic()
        if left <= 1:
            return
        found = look(piece, options.sanitizer, min(options.timeout, left), device)
        if found.verdict != "too long" or left >= options.timeout:  # else it is the budget's end, not its own
            book.add(piece, found)

    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for done in [pool.submit(work, piece, next(devices)) for piece in order if book.is_left(piece)]:
            done.result()
    told, code = book.summary(wanted)
    print(told)
    return code


if __name__ == "__main__":
    sys.exit(main())
