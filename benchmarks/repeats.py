"""Repeated layers as a loop against the same layers written out: `gpt`, in turns in one process, and its peak memory.

    python -m benchmarks.repeats [--device cuda] [--layers 12] [--seconds 15] [--units DIR]

A turn is short, loop, unrolled, unrolled, loop, so that whatever else the machine does meets both alike; told are the
median of the turns' ratios and between what bounds it lies with 95% certainty. On a busy machine the bounds are far
apart: then repeat it, or give it more seconds.

Two units are generated, equal but for the loop. Where black is missing, generate them elsewhere first:
`python -m benchmarks.repeats --device cuda --units DIR --generate-only`. Peak memory is what one call needs beside
weights and arguments: on CUDA what the allocator saw, on the CPU how much a process of its own grew at most.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import longhand
from benchmarks import report
from examples.gpt import GPT
from longhand.factory import Call
from longhand.loading import bound
from longhand.tune.bench import seconds_of_calls

_LOOP, _UNROLLED = "loop", "unrolled"
_TURN_SECONDS = 0.01  # of each of the four parts of a turn
_FEWEST_TURNS = 9


def main() -> None:
    """Prints both times, their ratio and both peaks; exits with 1 if the loop is more than 2% slower."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long turns are taken")
    parser.add_argument(
        "--units", type=Path, help="folder for both units; what is there is not generated again"
    )
    parser.add_argument(
        "--generate-only", action="store_true", help="write the units, for CUDA without a GPU"
    )
    parser.add_argument("--peak", choices=(_LOOP, _UNROLLED), help="print the peak of one unit as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        units = options.units or Path(scratch)
        _generate_both(units, options.device, options.layers)
        if options.peak:
            print(json.dumps(_peak(units / options.peak, options.device, options.layers)))
        elif not options.generate_only:
            sys.exit(_compare(units, options))


def _call(device: str, n_layers: int) -> Call:
    """GPT-2's widths in bfloat16 on CUDA, a small model in float32 on the CPU."""
    torch.manual_seed(0)
    if device == "cuda":
        model = GPT(n_tokens=50257, max_seq=1024, dim=768, n_heads=12, n_layers=n_layers).eval().bfloat16()
        return Call(model, (torch.randint(50257, (8, 1024)),), {})
    model = GPT(n_tokens=2048, max_seq=256, dim=256, n_heads=4, n_layers=n_layers).eval()
    return Call(model, (torch.randint(2048, (2, 128)),), {})


def _generate_both(units: Path, device: str, n_layers: int) -> None:
    call = _call(device, n_layers)
    arch = "sm_90" if device == "cuda" else None
    if not (units / _LOOP).exists():
        longhand.generate(call.model, call.args, out=units / _LOOP, device=device, arch=arch)
    if not (units / _UNROLLED).exists():
        with mock.patch("longhand.schedule.scheduler.fold_repeats", lambda steps, program, kept: list(steps)):
            longhand.generate(call.model, call.args, out=units / _UNROLLED, device=device, arch=arch)
    has_loop = {
        name: "for layer in" in (units / name / "model.py").read_text() for name in (_LOOP, _UNROLLED)
    }
    assert has_loop == {_LOOP: True, _UNROLLED: False}, has_loop


def _ready(unit: Path, device: str, n_layers: int) -> Callable[[], Any]:
    call = _call(device, n_layers)
    model, args = call.model.to(device), [arg.to(device) for arg in call.args]
    run = bound(longhand.load(unit, check=False), model)
    return lambda: run(*args)


def _compare(units: Path, options: argparse.Namespace) -> int:
    print(report.machine(options.device))
    calls = {name: _ready(units / name, options.device, options.layers) for name in (_LOOP, _UNROLLED)}
    results = [call() for call in calls.values()]
    torch.testing.assert_close(*results, rtol=0, atol=0)
    del results
    turns = _turns(calls, options.device, options.seconds)
    ratio, low, high = _median_within(
        [loop / plain for loop, plain in zip(turns[_LOOP], turns[_UNROLLED], strict=True)]
    )
    peaks = {name: _peak_in_fresh_process(units, name, options) for name in calls}
    for name, seconds in turns.items():
        lines = (units / name / "model.py").read_text().count("\n")
        print(
            f"{name:9} {statistics.median(seconds) * 1e3:9.3f} ms (least {min(seconds) * 1e3:.3f}), "
            f"peak {peaks[name] / 2**20:.1f} MiB, model.py {lines} lines"
        )
    print(
        f"loop / unrolled: {ratio:.4f} (median of {len(turns[_LOOP])} turns, {low:.4f} to {high:.4f}; at most 1.02)"
    )
    return 0 if ratio <= 1.02 else 1


def _turns(calls: dict[str, Callable[[], Any]], device: str, seconds: float) -> dict[str, list[float]]:
    """Seconds per call, turn by turn: in each turn, both are called first and last as often."""
    loop, unrolled = calls[_LOOP], calls[_UNROLLED]
    for call in (loop, unrolled, unrolled, loop) * 3:
        seconds_of_calls(call, device, 1)
    longest = max(seconds_of_calls(call, device, 3) for call in (loop, unrolled))
    n_calls = max(1, round(_TURN_SECONDS / longest))
    turns: dict[str, list[float]] = {_LOOP: [], _UNROLLED: []}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(turns[_LOOP]) < _FEWEST_TURNS:
        times = [seconds_of_calls(call, device, n_calls) for call in (loop, unrolled, unrolled, loop)]
        turns[_LOOP].append((times[0] + times[3]) / 2)
        turns[_UNROLLED].append((times[1] + times[2]) / 2)
    return turns


def _median_within(values: list[float]) -> tuple[float, float, float]:
    """The median, and the order statistics between which it lies with 95% certainty."""
    ordered, n = sorted(values), len(values)
    margin = round(0.98 * n**0.5)
    return statistics.median(ordered), ordered[max(n // 2 - margin, 0)], ordered[min(n // 2 + margin, n - 1)]


def _peak_in_fresh_process(units: Path, name: str, options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "benchmarks.repeats", "--device", options.device, "--units", str(units)]
    command += ["--layers", str(options.layers), "--peak", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(json.loads(done.stdout.splitlines()[-1]))


def _peak(unit: Path, device: str, n_layers: int) -> int:
    """Bytes beside weights and arguments that one call needs at most, its kernels built and loaded before."""
    call = _ready(unit, device, n_layers)
    if device == "cuda":
        call()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    Path("/proc/self/clear_refs").write_text("5")  # the highest resident size begins anew
    before = _resident("VmHWM")
    call()
    return _resident("VmHWM") - before


def _resident(entry: str) -> int:
    """Bytes, as Linux counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{entry}:"))


if __name__ == "__main__":
    main()
