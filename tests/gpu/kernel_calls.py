"""``python -m tests.gpu.kernel_calls UNIT FOLDER [cpu]``: what the kernels of a gallery unit are given, kept in files.

The unit runs at two odd sizes, no multiples of blocks, against eager. Each kernel's arguments are kept as they were
before its call, once for each set of sizes, with what its reference in the unit makes of them: FOLDER/KERNEL.pt.
tests/gpu/kernel_alone.py launches a kernel on them, in a process in which nothing else uses the GPU. On the CPU the
unit runs in Triton's interpreter, with TRITON_INTERPRET=1. Ends with 1 if the unit was wrong or a kernel was not given
anything.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# The kernels are compiled for tensors that begin where those of kernel_alone do.
os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gallery"))

import odd_runs
import torch
import torch.utils._pytree as pytree

from examples.gallery import ROOT
from tests.gpu.kernel_alone import on_copy

MOST_CALLS = 4  # of one kernel
FACTOR = 6  # of the reference's own error, as in odd_runs


def recorded(check: ModuleType, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """One call: arguments on memory of their own, and each result's place in it with its bounds.

    What the kernel writes without reading it is spoiled.
    """
    storages: dict[int, torch.UntypedStorage] = {}

    def own(one: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, lambda t: on_copy(t.detach(), "cpu", storages), one)

    call = {"given": own(given), "named": own(named)}
    windows, reference = check.KERNELS[name]
    groups = windows(*call["given"], **call["named"])
    groups = groups if isinstance(groups, list) else [groups]
    bounded = [(found, *bounds) for group in groups for found, *bounds in expected(check, reference, *group)]
    reads = pytree.tree_leaves([read for read, _ in groups])
    read = {one.untyped_storage().data_ptr() for one in reads if isinstance(one, torch.Tensor)}
    for found, _, high in bounded:
        if found.untyped_storage().data_ptr() not in read:
            found.copy_(torch.nan if found.is_floating_point() else high + 1)
    return {**call, "results": bounded}


def expected(
    check: ModuleType, reference: Callable[..., Any], read: dict[str, Any], written: list[torch.Tensor]
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Each result's place, and the least and the most that each of its elements may be, in float64."""
    exact = check.results_of(reference, check.as_double(read))
    plain = check.results_of(reference, read)
    bounded = []
    for found, one_exact, one_plain in zip(written, exact, plain, strict=True):
        one_plain = torch.as_tensor(one_plain, dtype=found.dtype).expand_as(found)
        one_exact = torch.as_tensor(one_exact).expand_as(found)
        limit = check.allowed(found, one_exact, one_plain, factor=FACTOR)
        low, high = one_exact.double() - limit, one_exact.double() + limit
        if not found.is_floating_point():
            low, high = torch.minimum(low, one_plain.double()), torch.maximum(high, one_plain.double())
        is_finite = one_exact.isfinite() & one_plain.isfinite()
        low, high = (torch.where(is_finite, bound, one_plain.double()) for bound in (low, high))
        bounded.append((found, low, high))
    return bounded


def record(unit: str, device: str) -> dict[str, list[dict[str, Any]]]:
    """The calls of each kernel of a unit."""
    folder = ROOT / unit
    sys.path.insert(0, str(folder.parent))
    check = importlib.import_module(f"{folder.name}.check")
    kernels = importlib.import_module(f"{folder.name}.kernels")
    calls: dict[str, list[dict[str, Any]]] = {name: [] for name in kernels.__all__}
    seen = set()

    def recording(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(kernel)
        def run(*given: Any, **named: Any) -> Any:
            leaves = pytree.tree_leaves((given, named))
            key = (name, str([one.shape if isinstance(one, torch.Tensor) else one for one in leaves]))
            if key not in seen and len(calls[name]) < MOST_CALLS:
                seen.add(key)
                calls[name].append(recorded(check, name, given, named))
            return kernel(*given, **named)

        return run

    for name in kernels.__all__:
        setattr(kernels, name, recording(name, getattr(kernels, name)))
    with tempfile.TemporaryDirectory() as workshop:
        odd_runs.run(unit, Path(workshop), device)
    return calls


def main(words: list[str]) -> int:
    """Keeps the calls of a unit's kernels."""
    unit, folder = words[0], Path(words[1])
    device = words[2] if len(words) > 2 else "cuda"
    if device == "cpu":
        from longhand.verify.attention_on_cpu import register
        from longhand.verify.interpretation import mend_interpreter

        mend_interpreter()
        register()
    calls = record(unit, device)
    folder.mkdir(parents=True, exist_ok=True)
    for name, given in calls.items():
        if given:
            torch.save(given, folder / f"{name}.pt")
        print(f"recorded {name}: {len(given)} calls")
    return 0 if all(calls.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
