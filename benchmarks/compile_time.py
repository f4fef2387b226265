"""How long until the first result, each in a fresh process: ``python -m benchmarks.compile_time``.

Longhand's stages against torch.compile's first call with empty caches; longhand.compile's first call with empty caches
and in a second process, which finds the unit and its binaries; and writing a unit for sm_90 with all its kernels
compiled, which needs no GPU. With a GPU the first two run there.
"""

from __future__ import annotations

import argparse
import enum
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import longhand
from longhand.factory import Call, resolve
from longhand.loading import bound
from longhand.verify.original import moved

_FACTORIES = ("examples.attention:small", "examples.gpt:small", "examples.llama_block:small")
_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Contender(enum.Enum):
    """What is timed."""

    LONGHAND = "longhand"
    COMPILE = "longhand.compile"
    SM_90 = "longhand for sm_90"
    TORCH = "torch.compile"


def compile_times() -> list[list[str]]:
    """A table: seconds of each stage, and of torch.compile, with empty caches; and of a second process."""
    header: list[str] = []
    rows = []
    for factory in _FACTORIES:
        (ours,) = _in_fresh_processes(factory, Contender.LONGHAND)
        (binaries,) = _in_fresh_processes(factory, Contender.SM_90)
        cold, warm = _in_fresh_processes(factory, Contender.COMPILE, 2)
        theirs_cold, theirs_warm = _in_fresh_processes(factory, Contender.TORCH, 2)
        stages = {"capture": 0.0, **ours}
        total = sum(seconds for stage, seconds in stages.items() if not stage.startswith("in "))
        cells = {
            **stages,
            "longhand total": total,
            "for sm_90": sum(seconds for stage, seconds in binaries.items() if not stage.startswith("in ")),
            "compile()": cold["first call"],
            "again": warm["first call"],
            "torch.compile": theirs_cold["first call"],
            "torch again": theirs_warm["first call"],
        }
        header = ["model", *cells]
        rows.append([factory, *(f"{seconds:.2f}" for seconds in cells.values())])
    return [header, *rows]


def _in_fresh_processes(factory: str, contender: Contender, n_processes: int = 1) -> list[dict[str, float]]:
    """What each of several processes measures, one after the other, which share caches that were empty."""
    measured = []
    with tempfile.TemporaryDirectory() as caches:
        environment = dict(
            os.environ,
            TORCHINDUCTOR_CACHE_DIR=f"{caches}/inductor",
            TRITON_CACHE_DIR=f"{caches}/triton",
            XDG_CACHE_HOME=f"{caches}/xdg",
            LONGHAND_CACHE_DIR=f"{caches}/longhand",
        )
        for _ in range(n_processes):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.compile_time", factory, contender.value],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            measured.append(dict(json.loads(done.stdout.splitlines()[-1])))
    return measured


def _measure(factory: str, contender: Contender) -> dict[str, float]:
    call = resolve(factory)
    with torch.no_grad(), tempfile.TemporaryDirectory() as workshop:
        if contender is Contender.SM_90:
            summary = longhand.generate(
                call.model,
                call.args,
                call.kwargs,
                out=Path(workshop) / "unit",
                device="cuda",
                arch="sm_90",
                run=False,
            )
            return dict(summary.timings.stages)
        call = moved(call, _DEVICE)
        if contender is Contender.TORCH:
            return {"first call": _seconds(call, torch.compile(call.model))}
        if contender is Contender.COMPILE:
            return {"first call": _seconds(call, longhand.compile(call.model))}
        out = Path(workshop) / "unit"
        summary = longhand.generate(call.model, call.args, call.kwargs, out=out, sample=True, run=False)
        begin = time.perf_counter()
        first = _seconds(call, bound(longhand.load(out), call.model))
        load = time.perf_counter() - begin - first
    shares = {f"in {library}": seconds for library, seconds in summary.timings.shares}
    return {**dict(summary.timings.stages), "load and first call": load + first, **shares}


def _seconds(call: Call, run: object) -> float:
    """Of one call, its kernels included."""
    assert callable(run)
    begin = time.perf_counter()
    run(*call.args, **call.kwargs)
    if _DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def main() -> None:
    """Prints the table; with arguments, measures one contender in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("factory", nargs="?")
    parser.add_argument("contender", nargs="?", choices=[contender.value for contender in Contender])
    chosen = parser.parse_args()
    if chosen.contender is None:
        # Imported here: what is measured in a fresh process pays for its imports itself.
        from benchmarks import report

        print(report.machine(_DEVICE))
        for row in compile_times():
            print("  ".join(f"{cell:>14}" for cell in row))
        return
    print(json.dumps(_measure(chosen.factory, Contender(chosen.contender))))


if __name__ == "__main__":
    main()
