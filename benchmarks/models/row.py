"""One row: a family, a part and a batch, in a process of its own; compiled first, timed when the parent says so."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.models.chains import CHAINS
from benchmarks.models.contenders import (
    CONTENDERS,
    Compile,
    Contender,
    Work,
    exact_tensors,
    make_contender,
    relative_distance,
    tensors_of,
)
from benchmarks.models.families import FAMILIES, Family, on_device
from longhand.tune.bench import turns_side_by_side

__all__ = ["Figures", "Row", "RowResult", "prepare", "time_contenders"]

_HOST_CALLS = 12
KernelTime = tuple[str, int, float]


@dataclasses.dataclass(frozen=True)
class Row:
    """What is measured.

    Attributes:
        family: A key of FAMILIES or of CHAINS.
        batch: How many.
        trains: A training step.
    """

    family: str
    batch: int
    trains: bool

    @property
    def name(self) -> str:
        return f"{self.family} B{self.batch}{' training' if self.trains else ''}"


@dataclasses.dataclass(frozen=True)
class Figures:
    """What was measured of one contender.

    Attributes:
        ms: Milliseconds a call, calls one after the other: median of the turns.
        least_ms: The least of the turns.
        host_us: Microseconds until a call returns, median; least_host_us the least.
        kernels: What each of its kernels takes in one call, (name, launches, milliseconds), the slowest first; empty
            where not asked for.
        peak_bytes: See Contender.
        error: See Contender.
        compile_seconds: See Contender.
    """

    ms: float
    least_ms: float
    host_us: float
    least_host_us: float
    kernels: list[KernelTime]
    peak_bytes: int
    error: float
    compile_seconds: float

    @property
    def kernel_ms(self) -> float:
        """The sum of its kernels' times, of one call; 0.0 where not asked for."""
        return sum(milliseconds for _, _, milliseconds in self.kernels)


@dataclasses.dataclass(frozen=True)
class RowResult:
    """One row, measured.

    Attributes:
        figures: By contender.
        failures: By contender that was not timed: why.
    """

    figures: dict[str, Figures]
    failures: dict[str, str]


def prepare(
    row: Row,
    device: str,
    dtype: torch.dtype,
    contenders: Mapping[str, Compile] = CONTENDERS,
    families: Mapping[str, Family] = FAMILIES | CHAINS,
) -> dict[str, Contender]:
    """Makes the model once, and each contender of it; eager comes first, and says what an error may be."""
    torch.manual_seed(0)
    family = families[row.family]
    model = family.make().train(row.trains).to(device, dtype)
    inputs = on_device(family.inputs(row.batch), device, dtype)
    eager = Work(model, model, inputs, row.trains)
    tensors = tensors_of(eager)
    exact = exact_tensors(model, inputs, row.trains, eager.gradient)
    eager_error = relative_distance(tensors, exact)
    del tensors
    ready = {}
    for name, compile_it in contenders.items():
        ready[name] = make_contender(compile_it, model, inputs, row.trains, exact, eager_error)
    return ready


def time_contenders(ready: Mapping[str, Contender], device: str, n_turns: int, kernels: bool) -> RowResult:
    """Times those that are right, in turns."""
    calls = {name: one.work for name, one in ready.items() if one.work is not None}
    turns = turns_side_by_side(calls, device=device, n_turns=n_turns, is_paired=True)
    hosts = host_times(calls, torch.cuda.synchronize if device == "cuda" else lambda: None)
    figures = {}
    for name, work in calls.items():
        one = ready[name]
        figures[name] = Figures(
            statistics.median(turns[name]) * 1e3,
            min(turns[name]) * 1e3,
            statistics.median(hosts[name]),
            min(hosts[name]),
            kernel_times(work) if kernels and device == "cuda" else [],
            one.peak_bytes,
            one.error,
            one.seconds,
        )
    return RowResult(figures, {name: one.failure for name, one in ready.items() if one.failure})


def host_times(calls: Mapping[str, Callable[[], Any]], wait: Callable[[], object]) -> dict[str, list[float]]:
    """Microseconds until each call returns, in turns; each starts when the device is done."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_HOST_CALLS):
        for name, call in calls.items():
            wait()
            began = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - began) * 1e6)
    wait()
    return times


def kernel_times(call: Callable[[], Any]) -> list[KernelTime]:
    """What each kernel of one call takes: its name, how often it runs, and milliseconds in all; the slowest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    times = [
        (event.key, event.count, float(event.self_device_time_total) / 1e3)
        for event in profile.key_averages()
        if event.device_type.name == "CUDA"
    ]
    return sorted(times, key=lambda one: -one[2])
