"""What launching a kernel costs the host: through a unit's direct launcher, Triton's own path, and in eager PyTorch.

python -m benchmarks.launch [--write-results] (needs a GPU, and cc for the driver's row). The driver's part is in every
figure but one: with no rows to work on, the launcher does all that it does and the driver is not called. What the
driver takes is told beside them: its cuLaunchKernel in a loop of C, which is the floor of any launcher.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import statistics
import subprocess
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import report
from benchmarks.cases import GALLERY
from longhand.loading import load

_CALLS, _TURNS = 400, 9
_PARAMETERS = 32  # more than any kernel here has
_LOOP_OF_C = """
typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);

int launch_many(Launch launch, void *function, unsigned programs, unsigned threads, unsigned shared, void *stream,
                void **parameters, int calls)
{
    int failed = 0;
    for (int call = 0; call < calls; call++)
        failed |= launch(function, programs, 1, 1, threads, 1, 1, shared, stream, parameters, 0);
    return failed;
}
"""
_ROWS, _COLS = 16, 128


def calls() -> tuple[dict[str, Callable[[], object]], int]:
    """One softmax of 16 rows, in the ways to launch it; and how many tensors the kernel takes."""
    unit = load(GALLERY / "fused_ops_cuda" / "softmax")
    kernels = importlib.import_module(f"{unit.__module__.rpartition('.')[0]}.kernels")
    (name,) = kernels.__all__
    module = importlib.import_module(f"{kernels.__name__}.{name}")
    softmax, launcher = getattr(module, name), getattr(module, f"{name}_kernel")
    scores = torch.zeros(_ROWS, _COLS, device="cuda", dtype=torch.bfloat16)
    bias = torch.zeros(_COLS, device="cuda", dtype=torch.bfloat16)
    weights, nothing = torch.empty_like(scores), scores[:0]
    options = {"ROWS": 1, "COLS": _COLS, "num_warps": 4}
    given = (scores, bias, weights, _ROWS, _COLS)
    package = str(kernels.__package__).removesuffix(".kernels")
    ways = {
        "unit": _within(package, softmax, *given),
        "unit, no driver call": _within(package, softmax, nothing, bias, nothing, 0, _COLS),
        "unit, called by hand": lambda: softmax(*given),
        "launcher": _within(package, lambda: launcher[(_ROWS,)](*given, **options)),
        "Triton": lambda: launcher.kernel[(_ROWS,)](*given, **options),
        "eager torch.softmax": lambda: torch.softmax(scores, -1),
        "eager add": lambda: scores + bias,
    }
    return ways, launcher.n_tensors


def _within(package: str, function: Callable[..., object], *args: object) -> Callable[[], object]:
    """The call as model.py makes it: what another file than the unit's own calls is checked each time."""
    return types.FunctionType(_call.__code__, {"__package__": package}, "call", (function, args))


def _call(function: Callable[..., object], args: tuple[object, ...]) -> object:
    return function(*args)


def in_rounds(many_calls: Callable[[], object]) -> float:
    """Microseconds of host time a call: the median of several rounds of _CALLS that the GPU keeps up with."""
    rounds = []
    many_calls()
    for _ in range(_TURNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        many_calls()
        rounds.append((time.perf_counter() - start) / _CALLS * 1e6)
        torch.cuda.synchronize()
    return statistics.median(rounds)


def host_time(call: Callable[[], object]) -> float:
    """Of a call from Python."""

    def many_calls() -> None:
        for _ in range(_CALLS):
            call()

    return in_rounds(many_calls)


def driver_time(kernel: Any, n_tensors: int) -> float:
    """Of the driver's cuLaunchKernel, called from C.

    Args:
        kernel: What Triton compiled. All its tensors are one that nothing is written to, since there are no rows.
        n_tensors: How many of its parameters are pointers; they come first.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "launch.c"), Path(folder, "launch.so")
        source.write_text(_LOOP_OF_C)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        launch_many = ctypes.CDLL(str(library)).launch_many
    tensor = torch.zeros(_COLS, device="cuda")
    given = [ctypes.c_uint64(tensor.data_ptr() if n < n_tensors else 0) for n in range(_PARAMETERS)]
    parameters = (ctypes.c_void_p * _PARAMETERS)(*map(ctypes.addressof, given))
    launch = ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    function, threads = ctypes.c_void_p(kernel.function), 32 * kernel.metadata.num_warps

    def many_calls() -> None:
        failed = launch_many(
            launch, function, _ROWS, threads, kernel.metadata.shared, stream, parameters, _CALLS
        )
        if failed:
            raise RuntimeError(f"cuLaunchKernel: error {failed}")

    return in_rounds(many_calls)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-results", action="store_true", help="also into benchmarks/RESULTS.md")
    options = parser.parse_args()
    ways, n_tensors = calls()
    rows = [["call", "us of host time"], *([name, f"{host_time(call):.2f}"] for name, call in ways.items())]
    kernel = ways["Triton"]()
    rows.append(["the driver's cuLaunchKernel alone, from C", f"{driver_time(kernel, n_tensors):.2f}"])
    print(report.machine("cuda"))
    report.print_table(rows)
    if options.write_results:
        report.write_section(
            "GPU: launching", "cuda", rows, [f"A softmax of {_ROWS} rows; medians of {_TURNS} rounds."]
        )


if __name__ == "__main__":
    main()
