"""Random programs for CUDA: ``python -m tests.fuzz.cuda --seeds 0:100``.

``--kind`` says what they are made of: ``loops`` (elementwise and the like), ``images`` (convolutions, pooling, norms,
memory formats) or ``attention``. ``--side cpp`` writes them for the CPU instead, ``--side compiled`` runs them through
`longhand.compile`.

Each is generated for a GPU and run beside eager, in Triton's interpreter where no device is asked for
(``--device cuda``); ``--compile`` compiles every kernel for sm_90 instead and needs no GPU either; ``--train`` runs a
training step. What fails is made smaller and printed. ``--jobs`` processes share the seeds; one that dies or hangs
costs its program alone. ``--budget`` seconds end it between two programs. Exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import faulthandler
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SECONDS = 600  # for one program, minimizing included
_LEAST, _MOST = (
    20,
    100,
)  # seeds that a process takes at a time: each process imports torch and starts a compiler
_ROUNDS = 4  # processes that follow each other in a job, so that all jobs end at about the same time
_ENOUGH = "."  # the last line of a process that did not die


@dataclasses.dataclass(frozen=True)
class Row:
    """What came of one seed.

    Attributes:
        outcome: The value of an `Outcome`.
        text: Of a failure: what there is to print.
    """

    seed: int
    outcome: str
    kernels: int = 0
    cause: str = ""
    text: str = ""


def main(words: list[str] | None = None) -> int:
    """Runs the seeds; the exit code."""
    given = _options(words)
    if given.worker:
        _work(given)
        return 0
    first, _, last = given.seeds.partition(":")
    seeds = list(range(int(first), int(last or int(first) + 1)))
    size = min(_MOST, max(_LEAST, -(-len(seeds) // (given.jobs * _ROUNDS))))
    chunks = [seeds[place : place + size] for place in range(0, len(seeds), size)]
    given.deadline = time.time() + given.budget
    counts: collections.Counter[str] = collections.Counter()
    causes: collections.Counter[str] = collections.Counter()
    n_kernels, start = 0, time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for rows in pool.map(lambda chunk: _run_chunk(given, chunk), chunks):
            for row in rows:
                counts[row.outcome] += 1
                n_kernels += row.kernels
                if row.text:
                    causes[row.cause] += 1
                    print(f"{row.outcome}: {row.cause}\n{row.text}", flush=True)
            if rows:
                print(f"up to seed {rows[-1].seed}: {_told(counts)}", flush=True)
    seconds = time.perf_counter() - start
    print(f"seeds {given.seeds}: {_told(counts)}; {n_kernels} kernels; {seconds:.0f} s", flush=True)
    if n_left := len(seeds) - counts.total():
        print(f"{n_left} seeds not run: out of time")
    for cause, count in causes.most_common():
        print(f"  {count} times: {cause}")
    return 1 if causes else 0


def _told(counts: collections.Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.most_common())


def _run_chunk(given: argparse.Namespace, seeds: list[int]) -> list[Row]:
    """The rows of these seeds, from as many processes as it takes: what kills one goes on after its program."""
    rows: list[Row] = []
    while len(rows) < len(seeds) and time.time() < given.deadline:
        left = seeds[len(rows) :]
        done = subprocess.run(_command(given, left), capture_output=True, text=True, env=_environment(given))
        found = [Row(**json.loads(line[1:])) for line in done.stdout.splitlines() if line.startswith("@")]
        rows += found
        if done.stdout.rstrip().endswith(f"\n{_ENOUGH}") or done.stdout.strip() == _ENOUGH:
            break
        if len(found) < len(left):
            lost = left[len(found)]
            why = f"the process ended with {done.returncode}"
            rows.append(Row(lost, "CRASHED", 0, why, f"seed {lost}\n{done.stderr[-3000:]}"))
    return rows


def _command(given: argparse.Namespace, seeds: list[int]) -> list[str]:
    flags = [f"--{word}" for word in ("compile", "train") if getattr(given, word)]
    options = ["--seeds", f"{seeds[0]}:{seeds[-1] + 1}", "--device", given.device]
    options += ["--kind", given.kind, "--side", given.side]
    options += ["--budget", str(given.deadline - time.time())]
    return [sys.executable, "-m", "tests.fuzz.cuda", "--worker", *options, "--runs", str(given.runs), *flags]


def _environment(given: argparse.Namespace) -> dict[str, str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if given.device == "cpu" and not given.compile:
        environment["TRITON_INTERPRET"] = "1"  # before anything imports Triton
    return environment


def _work(given: argparse.Namespace) -> None:
    """In a process of its own: a line of JSON for each seed."""
    from tests.fuzz.running import Runner, Side  # after Triton has been told how to run

    logging.disable(logging.CRITICAL)
    first, _, last = given.seeds.partition(":")
    deadline = time.time() + given.budget
    with tempfile.TemporaryDirectory(prefix="fuzz_") as folder:
        runner = Runner(Path(folder), given.device, given.compile, Side(given.side))
        for row in _rows(runner, range(int(first), int(last)), given):
            print(f"@{json.dumps(dataclasses.asdict(row))}", flush=True)
            if "CUDA error" in row.text:
                os._exit(0)  # nothing can be launched any more: the rest is for another process
            if time.time() > deadline:
                break
    print(_ENOUGH, flush=True)


def _rows(runner: Any, seeds: range, given: argparse.Namespace) -> Iterator[Row]:
    from tests.fuzz.kinds import KINDS
    from tests.fuzz.minimize import minimize
    from tests.fuzz.programs import Program

    for seed in seeds:
        faulthandler.dump_traceback_later(_SECONDS, exit=True)
        program = KINDS[given.kind](seed, given.train)
        report = runner.run(program)
        text = ""
        if report.failed:
            wanted = (report.outcome, report.cause)

            def fails(other: Program, wanted: tuple[Any, str] = wanted) -> bool:
                found = runner.run(other)
                return (found.outcome, found.cause) == wanted

            can_go_on = "CUDA error" not in report.details
            smallest = minimize(program, fails, given.runs) if can_go_on else program
            text = f"{report.details}\n{smallest}"
        yield Row(seed, report.outcome.value, report.kernels, report.cause, text)
    faulthandler.cancel_dump_traceback_later()


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.cuda", description=__doc__)
    parser.add_argument("--seeds", default="0:100", metavar="A:B", help="from A up to B, without B")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="cpu: Triton's interpreter")
    parser.add_argument(
        "--kind", default="loops", choices=("loops", "images", "attention"), help="of statements"
    )
    parser.add_argument(
        "--side", default="triton", choices=("triton", "cpp", "compiled"), help="what is written and run"
    )
    parser.add_argument("--compile", action="store_true", help="compile for sm_90 instead of running")
    parser.add_argument("--train", action="store_true", help="a training step of each")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    parser.add_argument(
        "--runs", type=int, default=40, help="programs that are tried to make a failing one smaller"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
