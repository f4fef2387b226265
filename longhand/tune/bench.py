"""Times calls side by side: all in one process, taking turns, so that a noisy machine is as noisy for each."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from longhand.loading import bound, load
from longhand.verify.original import original_of

_BATCH_SECONDS = 0.02  # what one turn should last at least
_MAX_CALLS = 1000


@dataclasses.dataclass(frozen=True)
class Times:
    """Milliseconds per call.

    Attributes:
        median: Of the turns.
        minimum: Of the turns.
        n_turns: How many there were.
        noise: The part of the median that may be chance: half the width of its 95% interval.
    """

    median: float
    minimum: float
    n_turns: int
    noise: float = 0.0


@dataclasses.dataclass(frozen=True, repr=False)
class ModelTimes:
    """What was measured of a model.

    Attributes:
        times: By name, eager first.
        left_out: What does not run here, with the first line of its error.
    """

    times: dict[str, Times]
    left_out: dict[str, str]

    def __repr__(self) -> str:
        each = [f"{name} {one.median:.3f} ms" for name, one in self.times.items()]
        return f"<ModelTimes {', '.join(each)}>"


def time_side_by_side(
    calls: Mapping[str, Callable[[], Any]], *, device: str, n_turns: int = 7
) -> dict[str, Times]:
    """Times each call in turns; warms each up first, in the order given.

    Args:
        calls: By name; each allocates its results, as a user's call would.
        device: ``cpu`` or ``cuda``.
        n_turns: Turns of each, interleaved.
    """
    all_turns = turns_side_by_side(calls, device=device, n_turns=n_turns)
    return {
        name: Times(statistics.median(turns) * 1e3, min(turns) * 1e3, n_turns, noise_of(turns))
        for name, turns in all_turns.items()
    }


def noise_of(turns: Sequence[float]) -> float:
    """Half the width of the 95% interval of the median, as a part of it."""
    middle = statistics.median(turns)
    deviation = 1.4826 * statistics.median([abs(turn - middle) for turn in turns])
    return 1.96 * 1.2533 * deviation / math.sqrt(len(turns)) / middle


def turns_side_by_side(
    calls: Mapping[str, Callable[[], Any]], *, device: str, n_turns: int, is_paired: bool = False
) -> dict[str, list[float]]:
    """The same, with what each turn took: seconds per call.

    With `is_paired`, for comparing turn by turn: turns of all are equally many calls (on a busy machine a long turn is
    interrupted more often than a short one), and each call comes first in some turns.
    """
    sizes = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        per_call = max(seconds_of_calls(call, device, 3), 1e-6)
        sizes[name] = max(1, min(_MAX_CALLS, round(_BATCH_SECONDS / per_call)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    if is_paired:
        sizes = dict.fromkeys(calls, min(sizes.values()))
    names = list(calls)
    for turn in range(n_turns):
        first = turn % len(names) if is_paired else 0
        for name in names[first:] + names[:first]:
            seconds[name].append(seconds_of_calls(calls[name], device, sizes[name]))
    return seconds


def seconds_of_calls(call: Callable[[], Any], device: str, n_calls: int) -> float:
    """Seconds per call of `n_calls` calls, one after the other."""
    return (_batch_on_gpu if device == "cuda" else _batch_on_cpu)(call, n_calls)


def _batch_on_cpu(call: Callable[[], Any], n_calls: int) -> float:
    """Seconds per call."""
    begin = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - begin) / n_calls


def _batch_on_gpu(call: Callable[[], Any], n_calls: int) -> float:
    """Seconds per call between two events on the stream: kernels, and the host where it is slower than they are."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(n_calls):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / n_calls


def bench(folder: Path, factory: str | None = None, *, n_turns: int = 7) -> ModelTimes:
    """A unit against eager and torch.compile (its default mode) on the unit's example call.

    torch.compile is left out where it fails: it may lack what the unit does without (Inductor runs
    ``openssl``), or not support the model.

    Raises:
        UnitError: There is no such unit, or it cannot run here.
        FactoryError: The original cannot be made again.
    """
    call = original_of(folder, factory)
    unit = bound(load(folder), call.model)
    torch.compiler.reset()
    compiled = torch.compile(call.model)
    left_out: dict[str, str] = {}

    def on(function: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: function(*call.args, **call.kwargs)

    device = "cuda" if any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in call.args) else "cpu"
    calls = {"eager": on(call.model), "torch.compile": on(compiled), "longhand": on(unit)}
    with torch.no_grad():
        calls["eager"]()  # what the model itself raises is no fault of torch.compile's
        try:
            calls["torch.compile"]()
        except Exception as error:
            left_out["torch.compile"] = str(error).partition("\n")[0]
            del calls["torch.compile"]
        return ModelTimes(time_side_by_side(calls, device=device, n_turns=n_turns), left_out)
