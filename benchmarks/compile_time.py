"""How long until the first result: longhand's stages against torch.compile's first call, each in a fresh process."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import longhand
from longhand.factory import resolve
from longhand.loading import bound

_FACTORIES = ("examples.attention:small", "examples.gpt:small", "examples.llama_block:small")


def compile_times() -> list[list[str]]:
    """A table: seconds of each stage, and of torch.compile, with empty caches."""
    header: list[str] = []
    rows = []
    for factory in _FACTORIES:
        ours, theirs = (_in_fresh_process(factory, name) for name in ("longhand", "torch.compile"))
        stages = {"capture": 0.0, **ours}
        header = ["model", *stages, "longhand total", "torch.compile"]
        total = sum(seconds for stage, seconds in stages.items() if not stage.startswith("in "))
        cells = [f"{seconds:.2f}" for seconds in stages.values()]
        rows.append([factory, *cells, f"{total:.2f}", f"{theirs['first call']:.2f}"])
    return [header, *rows]


def _in_fresh_process(factory: str, contender: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as caches:
        environment = dict(
            os.environ,
            TORCHINDUCTOR_CACHE_DIR=f"{caches}/inductor",
            XDG_CACHE_HOME=f"{caches}/xdg",
            LONGHAND_CACHE_DIR=f"{caches}/longhand",
        )
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.compile_time", factory, contender],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _measure(factory: str, contender: str) -> dict[str, float]:
    call = resolve(factory)
    with torch.no_grad(), tempfile.TemporaryDirectory() as workshop:
        if contender == "torch.compile":
            begin = time.perf_counter()
            torch.compile(call.model)(*call.args, **call.kwargs)
            return {"first call": time.perf_counter() - begin}
        out = Path(workshop) / "unit"
        summary = longhand.generate(call.model, call.args, call.kwargs, out=out, sample=True)
        begin = time.perf_counter()
        bound(longhand.load(out), call.model)(*call.args, **call.kwargs)
        build = time.perf_counter() - begin
    shares = {f"in {library}": seconds for library, seconds in summary.timings.shares}
    return {**dict(summary.timings.stages), "build and first call": build, **shares}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("factory")
    parser.add_argument("contender", choices=("longhand", "torch.compile"))
    chosen = parser.parse_args()
    print(json.dumps(_measure(chosen.factory, chosen.contender)))
