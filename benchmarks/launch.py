"""What launching a kernel costs the host: through a unit's direct launcher, Triton's own path, and in eager PyTorch.

python -m benchmarks.launch (needs a GPU). The driver's part is in every figure but one: with no rows to work on, the
launcher does all that it does and the driver is not called.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable

import torch

from benchmarks import report
from benchmarks.cases import GALLERY
from longhand.loading import load

_CALLS, _TURNS = 400, 9
_ROWS, _COLS = 16, 128


def calls() -> dict[str, Callable[[], object]]:
    """One softmax of 16 rows, in the ways to launch it."""
    unit = load(GALLERY / "fused_ops_cuda" / "softmax")
    kernels = importlib.import_module(f"{unit.__module__.rpartition('.')[0]}.kernels")
    (name,) = kernels.__all__
    module = importlib.import_module(f"{kernels.__name__}.{name}")
    softmax, launcher = getattr(module, name), getattr(module, f"{name}_kernel")
    scores = torch.zeros(_ROWS, _COLS, device="cuda", dtype=torch.bfloat16)
    bias = torch.zeros(_COLS, device="cuda", dtype=torch.bfloat16)
    weights, nothing = torch.empty_like(scores), scores[:0]
    options = {"ROWS": 1, "COLS": _COLS, "num_warps": 4}
    return {
        "unit": lambda: softmax(scores, bias, weights, _ROWS, _COLS),
        "unit, no driver call": lambda: softmax(nothing, bias, nothing, 0, _COLS),
        "launcher": lambda: launcher[(_ROWS,)](scores, bias, weights, _ROWS, _COLS, **options),
        "Triton": lambda: launcher.kernel[(_ROWS,)](scores, bias, weights, _ROWS, _COLS, **options),
        "eager torch.softmax": lambda: torch.softmax(scores, -1),
        "eager add": lambda: scores + bias,
    }


def host_time(call: Callable[[], object]) -> float:
    """Microseconds of host time a call: the median of several rounds that the GPU keeps up with."""
    rounds = []
    call()
    for _ in range(_TURNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        rounds.append((time.perf_counter() - start) / _CALLS * 1e6)
        torch.cuda.synchronize()
    return statistics.median(rounds)


def main() -> None:
    """Measures and prints."""
    print(report.machine("cuda"))
    report.print_table(
        [["call", "us"], *([name, f"{host_time(call):.2f}"] for name, call in calls().items())]
    )


if __name__ == "__main__":
    main()
