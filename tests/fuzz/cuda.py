"""Random programs for CUDA: ``python -m tests.fuzz.cuda --seeds 0:100``.

Each is generated for a GPU and run beside eager, in Triton's interpreter where no device is asked for
(``--device cuda``); ``--compile`` compiles every kernel for sm_90 instead and needs no GPU either; ``--train`` runs a
training step. What fails is made smaller and printed. Exits with 1 if anything did.
"""

from __future__ import annotations

import argparse
import collections
import logging
import os
import sys
import tempfile
import time
from pathlib import Path


def main(words: list[str] | None = None) -> int:
    """Runs the seeds; the exit code."""
    given = _options(words)
    if given.device == "cpu" and not given.compile:
        os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton
    from tests.fuzz.minimize import minimize
    from tests.fuzz.programs import Program, write_program
    from tests.fuzz.running import Report, Runner
    from tests.fuzz.statements import STATEMENTS

    logging.disable(logging.CRITICAL)
    first, _, last = given.seeds.partition(":")
    counts: collections.Counter[str] = collections.Counter()
    causes: collections.Counter[str] = collections.Counter()
    n_kernels, start = 0, time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fuzz_") as folder:
        runner = Runner(Path(folder), given.device, given.compile)
        for seed in range(int(first), int(last or int(first) + 1)):
            program = write_program(seed, STATEMENTS, given.train)
            if given.print:
                print(program, flush=True)
            report = runner.run(program)
            counts[report.outcome.value] += 1
            if given.progress and sum(counts.values()) % given.progress == 0:
                print(f"up to seed {seed}: {dict(counts)}", flush=True)
            n_kernels += report.kernels
            if not report.failed:
                continue
            causes[report.cause] += 1
            smallest = program
            if causes[report.cause] <= given.minimized:

                def fails(other: Program, first: Report = report) -> bool:
                    found = runner.run(other)
                    return (found.outcome, found.cause) == (first.outcome, first.cause)

                smallest = minimize(program, fails)
                report = runner.run(smallest)
            print(f"{report.outcome.value}: {report.cause}\n{report.details}\n{smallest}", flush=True)
    seconds = time.perf_counter() - start
    told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    print(f"seeds {given.seeds}: {told}; {n_kernels} kernels; {seconds:.0f} s", flush=True)
    for cause, count in causes.most_common():
        print(f"  {count} times: {cause}")
    return 1 if causes else 0


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.cuda", description=__doc__)
    parser.add_argument("--seeds", default="0:100", metavar="A:B", help="from A up to B, without B")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="cpu: Triton's interpreter")
    parser.add_argument("--compile", action="store_true", help="compile for sm_90 instead of running")
    parser.add_argument("--train", action="store_true", help="a training step of each")
    parser.add_argument("--print", action="store_true", help="print each program before it runs")
    parser.add_argument(
        "--minimized", type=int, default=1, help="how many failures of one cause are made smaller"
    )
    parser.add_argument(
        "--progress", type=int, default=0, metavar="N", help="print the counts after each N programs"
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
