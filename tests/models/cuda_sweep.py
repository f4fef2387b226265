"""CUDA units of many models without a GPU: ``python -m tests.models.cuda_sweep [--train] [--keep DIR] [NAME ...]``.

For each model: the unit is written, each kernel runs in Triton's interpreter against its reference, the whole against
eager, and what was launched is compiled for sm_90. Each model has a process of its own and a limit of time. The exit
status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton

import torch

from benchmarks.architectures import catalog
from longhand.factory import Call
from tests.models.cuda_units import LAUNCHES, STARTED, in_words, try_unit
from tests.models.handwritten import HANDWRITTEN
from tests.models.modules import MODULES

CPU_SECONDS = 240


def calls(train: bool) -> Mapping[str, Callable[[], Call]]:
    """By name how to make each model and its arguments: written by hand, and the table's (``transformers/gpt2``)."""
    found: dict[str, Callable[[], Call]] = {}
    for name, make in {**HANDWRITTEN, **MODULES}.items():
        found[name] = lambda make=make: Call(*make(), {})
    for row in (row for family in catalog.FAMILIES for row in catalog.names_in(family)):
        found[row] = lambda row=row: Call(*catalog.example(row, train=train))
    return found


def try_in_child(make: Callable[[], Call], folder: Path, train: bool) -> list[str]:
    """What is wrong with a model's CUDA unit; a crash or too much time is told like anything else."""
    result = folder / "problems.json"
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
            torch.manual_seed(0)
            try:
                problems = try_unit(make(), folder, train).problems
            except Exception as error:
                problems = [f"sweep: {in_words(error)}"]
            result.write_text(json.dumps(problems))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if result.exists():
        return list(json.loads(result.read_text()))
    at = (folder / STARTED).read_text() if (folder / STARTED).exists() else "the start"
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    why = "takes too long" if number == signal.SIGXCPU else f"crashes (signal {number})"
    return [f"{why} at {at}"]


class Compiler:
    """A process that compiles launches: Triton's compiler and its interpreter do not live in one."""

    def __init__(self) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.models.cuda_compile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def problems(self, folder: Path) -> list[str]:
        """What does not compile in a unit."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.__init__()  # type: ignore[misc]
            return ["compile: the compiler crashed"]
        return list(json.loads(line))


def main() -> int:
    """Tries the models named, or all; prints a line for each and what is wrong with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--keep", type=Path, help="where the units stay")
    options = parser.parse_args()
    known = calls(options.train)
    compiler = Compiler()
    n_wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        root = (options.keep or Path(scratch)).resolve()
        for name in options.names or known:
            folder = root / f"{name.replace('/', '_')}{'_train' * options.train}"
            subprocess.run(["rm", "-rf", str(folder)], check=True)
            folder.mkdir(parents=True)
            began = time.monotonic()
            problems = try_in_child(known[name], folder, options.train)
            if (folder / LAUNCHES).exists():
                problems += compiler.problems(folder)
            n_wrong += bool(problems)
            verdict = "WRONG" if problems else "right"
            print(f"{verdict}  {name:<26} {time.monotonic() - began:5.1f} s", flush=True)
            for problem in problems:
                print(f"       {problem}", flush=True)
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
