"""``python -m tests.gpu.sanitize``: compute-sanitizer over every CUDA kernel of the gallery, in pieces, on a GPU.

memcheck takes a unit at a time; racecheck, which slows a kernel down a thousandfold, one kernel: the unit runs, and
only launches of that kernel are looked at. Each piece is a process with a time limit. What came of it is kept in
``--book``, a line of JSON each, and not done again unless it took too long (or ``--again``); ``--budget 480`` ends
after eight minutes. Ends with 1 if a piece was not good, with 2 if some are left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from examples.gallery import ROOT, entries

FAULTY = 99  # what compute-sanitizer ends with where it finds something
Piece = tuple[str, str, str]  # the tool, the unit, the kernel's function; no function: all of them


def pieces(tools: list[str]) -> Iterator[Piece]:
    """What there is to do."""
    for tool in tools:
        for entry in entries():
            if entry.device != "cuda":
                continue
            if tool != "racecheck":
                yield tool, entry.path, ""
                continue
            for path in sorted((ROOT / entry.path / "kernels").glob("*.py")):
                for function in re.findall(r"^def (\w+_kernel)\(", path.read_text(), re.MULTILINE):
                    yield tool, entry.path, function


def command(piece: Piece, sanitizer: str) -> list[str]:
    """What a piece runs."""
    tool, unit, function = piece
    chosen = ["--kernel-name", f"kernel_substring={function}"] if function else []
    looked_at = [sanitizer, "--tool", tool, "--error-exitcode", str(FAULTY), *chosen]
    return [*looked_at, sys.executable, "-m", "tests.gpu.every_kernel", unit]


def run(piece: Piece, sanitizer: str, seconds: float) -> tuple[str, str]:
    """good, faulty, failed or too long; and the last that was said."""
    with subprocess.Popen(
        command(piece, sanitizer), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            said = process.communicate(timeout=seconds)[0].decode(errors="replace")
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started, too
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return "too long", f"{seconds:.0f} s"
    verdict = {0: "good", FAULTY: "faulty"}.get(process.returncode, "failed")
    return verdict, "" if verdict == "good" else said[-4000:]


def main(words: list[str] | None = None) -> int:
    """Does what is left, and prints what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("units", nargs="*", help="words in their paths; all by default")
    parser.add_argument("--tools", default="memcheck,racecheck")
    parser.add_argument("--book", type=Path, default=Path("build/sanitized_cuda.jsonl"))
    parser.add_argument("--timeout", type=float, default=400.0, help="seconds for a piece")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    parser.add_argument("--again", action="store_true", help="also what was done")
    parser.add_argument("--sanitizer", default="compute-sanitizer")
    options = parser.parse_args(words)
    options.book.parent.mkdir(parents=True, exist_ok=True)
    verdicts: dict[Piece, str] = {}
    if options.book.exists() and not options.again:
        for line in options.book.read_text().splitlines():
            tool, unit, function, verdict, *_ = json.loads(line)
            verdicts[tool, unit, function] = verdict
    wanted = [
        piece
        for piece in pieces(options.tools.split(","))
        if not options.units or any(word in piece[1] for word in options.units)
    ]
    deadline = time.monotonic() + options.budget
    for piece in sorted(wanted, key=lambda piece: verdicts.get(piece) == "too long"):  # these last
        left = deadline - time.monotonic()
        if verdicts.get(piece, "too long") != "too long" or left <= 0:
            continue
        began = time.monotonic()
        verdict, said = run(piece, options.sanitizer, min(options.timeout, left))
        if verdict == "too long" and left < options.timeout:
            continue  # the budget's end, not its own
        verdicts[piece] = verdict
        with options.book.open("a") as file:
            file.write(json.dumps([*piece, verdict, round(time.monotonic() - began, 1), said]) + "\n")
        print(
            f"{verdict:<8} {time.monotonic() - began:6.1f} s  {' '.join(piece)}\n{said}".rstrip(), flush=True
        )
    found = [verdicts.get(piece, "left") for piece in wanted]
    print(", ".join(f"{found.count(word)} {word}" for word in dict.fromkeys(found)))
    return 1 if {"faulty", "failed"} & set(found) else 2 if {"left", "too long"} & set(found) else 0


if __name__ == "__main__":
    sys.exit(main())
