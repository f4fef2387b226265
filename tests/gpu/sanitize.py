"""``python -m tests.gpu.sanitize -j 16 --budget 480``: compute-sanitizer over every CUDA kernel of the gallery.

A piece is one kernel's file under memcheck or racecheck, in a process of its own in which nothing else uses the GPU
(tests/gpu/kernel_alone.py): under racecheck, processes ended inside the library calls around our kernels. What a
kernel is given was kept before, without the sanitizer, while its unit ran at odd sizes (tests/gpu/kernel_calls.py).
Each piece has a time limit, ``-j`` run at once, over all GPUs. What came of it is kept in ``--book``, a line of JSON
each, and not done again unless it took too long or was not seen (or ``--again``); ``--budget 480`` ends after eight
minutes.

A line a kernel tells how often it was launched under the sanitizer: one that was never is ``unseen``, not good. Before
all that, kernels that are wrong on purpose must be found: else nothing is good. Ends with 1 if a kernel was not good
or none was seen, with 2 if some are left.
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
LAUNCHED = re.compile(r"^launched (\w+): (\d+)$", re.MULTILINE)  # as kernel_alone prints it
TOOLKIT = "/usr/local/cuda/bin/compute-sanitizer"
LEFT = ("too long", "left")
Piece = tuple[str, str, str]  # the tool, the unit, the kernel


class Found(NamedTuple):
    """What came of a piece: good, faulty, failed, unseen or too long; launches of each kernel; what was said."""

    verdict: str
    launches: dict[str, int]
    seconds: float
    said: str


def kernels(unit: str) -> list[str]:
    """The kernels of a unit: one is a file."""
    paths = sorted((ROOT / unit / "kernels").glob("*.py"))
    return [path.stem for path in paths if path.stem != "__init__"]


def functions(unit: str, kernel: str) -> list[str]:
    """What a kernel's file launches."""
    text = (ROOT / unit / "kernels" / f"{kernel}.py").read_text()
    return re.findall(r"^def (\w+_kernel)\(", text, re.MULTILINE)


def pieces(tools: list[str]) -> Iterator[Piece]:
    """What there is to do; the slower tool first."""
    for tool in sorted(tools, reverse=True):
        for entry in entries():
            if entry.device == "cuda":
                for kernel in kernels(entry.path):
                    yield tool, entry.path, kernel


def command(sanitizer: str, tool: str, module: str, *words: str) -> list[str]:
    """What looks at all launches of a module that is run."""
    looked_at = [sanitizer, "--tool", tool, "--error-exitcode", str(FAULTY)]
    return [*looked_at, sys.executable, "-m", f"tests.gpu.{module}", *words]


def ended(words: list[str], seconds: float, device: int) -> tuple[int | None, str]:
    """The exit code, None if the time was up, and all that was said."""
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
            return None, f"{seconds:.0f} s"
    return process.returncode, said


def run(words: list[str], seconds: float, device: int) -> tuple[str, str]:
    """good, faulty, failed or too long; and all that was said."""
    code, said = ended(words, seconds, device)
    return ("too long" if code is None else judged(code, said)), said


def judged(code: int, said: str) -> str:
    """What an exit code and the sanitizer's own summary tell: neither is believed alone."""
    summaries = [int(number) for number in SUMMARY.findall(said)]
    if any(summaries):
        return "faulty"
    return "good" if summaries and code == 0 else "failed"


def is_kept(unit: str, folder: Path) -> bool:
    """Whether what a unit's kernels are given was kept since the unit was last written."""
    paths = [folder / unit / f"{kernel}.pt" for kernel in kernels(unit)]
    if not all(path.exists() for path in paths):
        return False
    written = max(path.stat().st_mtime for path in (ROOT / unit).rglob("*.py"))
    return min(path.stat().st_mtime for path in paths) > written


def record(unit: str, folder: Path, seconds: float, device: int, words: list[str]) -> str:
    """Keeps what a unit's kernels are given; what was said where that did not go well."""
    code, said = ended(
        [sys.executable, "-m", "tests.gpu.kernel_calls", unit, str(folder / unit), *words], seconds, device
    )
    return "" if code == 0 else f"what its kernels are given was not kept: {said[-3000:]}"


def look(piece: Piece, sanitizer: str, calls: Path, seconds: float, device: int, words: list[str]) -> Found:
    """Runs a piece."""
    tool, unit, kernel = piece
    began = time.monotonic()
    path = calls / unit / f"{kernel}.pt"
    alone = command(sanitizer, tool, "kernel_alone", unit, kernel, str(path), *words)
    verdict, said = run(alone, seconds, device)
    counts = Counter({name: int(count) for name, count in LAUNCHED.findall(said)})
    launches = {name: counts[name] for name in functions(unit, kernel)}
    if verdict == "good" and not (launches and all(launches.values())):
        verdict = "unseen"
    kept = "" if verdict == "good" else said[-4000:]
    return Found(verdict, launches, round(time.monotonic() - began, 1), kept)


def blindness(sanitizer: str, tools: list[str], seconds: float) -> list[str]:
    """Where the sanitizer does not find what is wrong on purpose, or something in what is right."""
    controls = {
        "memcheck": [("outside", "faulty"), ("right", "good")],
        "racecheck": [("racing", "faulty"), ("right", "good")],
    }
    wanted = [(tool, *control) for tool in tools for control in controls[tool]]

    def tried(control: tuple[str, str, str]) -> str:
        tool, word, expected = control
        verdict, said = run(command(sanitizer, tool, "faulty_kernels", word), seconds, 0)
        words = f"{tool} of {word}_kernel: {verdict}"
        print(f"control: {words}", flush=True)
        return "" if verdict == expected else f"{words}, expected {expected}\n{said[-3000:]}"

    with concurrent.futures.ThreadPoolExecutor(max(len(wanted), 1)) as pool:
        return [words for words in pool.map(tried, wanted) if words]


def lines(piece: Piece, found: Found) -> str:
    """One line a kernel, and what was said where it is not good."""
    tool, unit, kernel = piece
    told = []
    for name, count in found.launches.items():
        verdict = "unseen" if found.verdict == "good" and not count else found.verdict
        told.append(f"{verdict:<8} {tool:<9} {unit} {kernel} {name}: {count} launches, {found.seconds} s")
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
        seen: dict[str, set[tuple[str, str, str]]] = {}
        for piece in wanted:
            for name, count in self.found[piece].launches.items() if piece in self.found else ():
                if count and self.found[piece].verdict in ("good", "faulty"):
                    seen.setdefault(piece[0], set()).add((*piece[1:], name))
        words = ", ".join(f"{count} pieces {verdict}" for verdict, count in verdicts.most_common())
        each = Counter(piece[0] for piece in wanted for _ in functions(*piece[1:]))
        words += "".join(
            f"; {tool}: {len(seen[tool])} of {each[tool]} kernels were looked at" for tool in sorted(seen)
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
    parser.add_argument(
        "--calls", type=Path, default=Path("build/sanitized_calls"), help="what kernels are given"
    )
    parser.add_argument("--cpu", action="store_true", help="in Triton's interpreter (TRITON_INTERPRET=1)")
    parser.add_argument("--timeout", type=float, default=400.0, help="seconds for a piece")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    parser.add_argument("--again", action="store_true", help="also what was done")
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer") or TOOLKIT)
    options = parser.parse_args(words)
    began = time.monotonic()
    deadline = began + options.budget
    tools = options.tools.split(",")
    blind = blindness(options.sanitizer, tools, min(120.0, options.budget))
    if blind:
        print("\n".join([*blind, "the sanitizer is blind: nothing was looked at"]))
        return 1
    book = Book(options.book, again=options.again)
    wanted = [p for p in pieces(tools) if not options.units or any(word in p[1] for word in options.units)]
    # What took too long before comes last.
    order = sorted(filter(book.is_left, wanted), key=lambda piece: piece in book.found)
    devices = itertools.cycle(range(max(torch.cuda.device_count(), 1)))
    where = ["cpu"] if options.cpu else []

    def keep(unit: str, device: int) -> str:
        if is_kept(unit, options.calls):
            return ""
        left = max(deadline - time.monotonic(), 1.0)
        return record(unit, options.calls, min(options.timeout, left), device, where)

    def work(piece: Piece, device: int) -> None:
        left = deadline - time.monotonic()
        if left <= 1:
            return
        if kept[piece[1]]:
            book.add(piece, Found("failed", dict.fromkeys(functions(*piece[1:]), 0), 0.0, kept[piece[1]]))
            return
        found = look(piece, options.sanitizer, options.calls, min(options.timeout, left), device, where)
        if found.verdict != "too long" or left >= options.timeout:  # else it is the budget's end, not its own
            book.add(piece, found)

    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        units = sorted({unit for _, unit, _ in order}, key=lambda unit: -len(kernels(unit)))
        kept = dict(zip(units, pool.map(keep, units, devices), strict=True))
        print(f"{len(units)} units ran: {time.monotonic() - began:.0f} s", flush=True)
        for done in [pool.submit(work, piece, next(devices)) for piece in order]:
            done.result()
    told, code = book.summary(wanted)
    print(told)
    return code


if __name__ == "__main__":
    sys.exit(main())
