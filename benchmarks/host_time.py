"""What the host does in a call of a small batch, where it is what one waits for: ``python -m benchmarks.host_time``.

The decoders of benchmarks.decoders at one sentence of 64 tokens, in inference and default modes: microseconds until a
call returns (the GPU may still work), and the kernels that it launches. With ``--device cpu`` a call's whole time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import longhand
from benchmarks import report
from benchmarks.decoders import MODELS

_SEQ, _WARM_UPS, _CALLS = 64, 10, 60


def host_time(call: Callable[[], Any], wait: Callable[[], object]) -> tuple[float, float]:
    """(median, minimum) of the microseconds that a call takes to return; each starts when the device is done."""
    times = []
    for count in range(_WARM_UPS + _CALLS):
        start = time.perf_counter()
        call()
        if count >= _WARM_UPS:
            times.append((time.perf_counter() - start) * 1e6)
        wait()
    return statistics.median(times), min(times)


def n_kernels(call: Callable[[], Any]) -> int:
    """How many kernels, copies and fills a call starts on the GPU."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages() if event.device_type.name == "CUDA")


def rows_of(name: str, device: str) -> list[list[str]]:
    """A line each for eager, torch.compile and longhand."""
    torch.manual_seed(0)
    torch.compiler.reset()
    longhand.reset()
    model = MODELS[name]().eval().to(device, torch.bfloat16)
    tokens = torch.randint(8192, (1, _SEQ), device=device)
    runs = {"eager": model, "torch.compile": torch.compile(model), "longhand": longhand.compile(model)}
    is_gpu = device == "cuda"
    wait = torch.cuda.synchronize if is_gpu else lambda: None
    rows = []
    for word, run in runs.items():

        def call(run: Callable[..., Any] = run) -> Any:
            return run(input_ids=tokens)

        median, least = host_time(call, wait)
        rows.append([name, word, f"{median:.0f}", f"{least:.0f}", str(n_kernels(call)) if is_gpu else ""])
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*MODELS, []], help="by default all")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    print(report.machine(options.device))
    rows = [["model", "by", "median us", "minimum us", "kernels"]]
    with torch.no_grad():
        for name in options.names or MODELS:
            rows += rows_of(name, options.device)
    report.print_table(rows)


if __name__ == "__main__":
    main()
