"""``compute-sanitizer ... python -m tests.gpu.kernel_alone UNIT KERNEL CALLS.pt [cpu]``: one kernel, and nothing else.

Only the unit's kernels/KERNEL.py is imported, nothing of its package that would import the rest. It is launched on what
tests/gpu/kernel_calls.py kept, and what it wrote is compared with what the unit's reference made of the same. On the
GPU nothing but bytes is moved beside its launches: no library's kernel runs. Every tensor is memory of its own from
the driver, so that memcheck sees an access one element past its end: PyTorch's cache would hand out pieces of large
blocks. How often each of its functions was launched is printed. Ends with 1 if a result is wrong.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # read when torch first asks for memory

import torch
import torch.utils._pytree as pytree
import triton

ROOT = Path(__file__).resolve().parents[2] / "generated"


def kernel_of(unit: str, name: str) -> Any:
    """A kernel, from its file and runtime.py alone."""
    folder = ROOT / unit
    for package, place in ((folder.name, folder), (f"{folder.name}.kernels", folder / "kernels")):
        empty = ModuleType(package)
        empty.__path__ = [str(place)]
        sys.modules[package] = empty
    return getattr(importlib.import_module(f"{folder.name}.kernels.{name}"), name)


def on_copy(tensor: torch.Tensor, device: str, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    """A tensor on a copy of its memory, which is one for all that share it; nothing but bytes is moved."""
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in storages:
        copy = torch.UntypedStorage(storage.nbytes(), device=device)
        storages[storage.data_ptr()] = copy.copy_(storage) if storage.nbytes() else copy
    empty = torch.empty(0, dtype=tensor.dtype, device=device)
    return empty.set_(storages[storage.data_ptr()], tensor.storage_offset(), tensor.shape, tensor.stride())


def mismatch(found: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> str:
    """The first element that is not within its bounds, in words; empty if there is none."""
    value = found.double()
    is_right = ((value >= low) & (value <= high)) | (value.isnan() & low.isnan())
    wrong = (~is_right).nonzero()
    if not len(wrong):
        return ""
    place = tuple(wrong[0].tolist())
    bounds = f"{low[place].item():.9g} to {high[place].item():.9g}"
    return f"{len(wrong)} elements are wrong, the first at {list(place)}: {value[place].item():.9g}, allowed {bounds}"


def launch(kernel: Any, call: dict[str, Any], device: str) -> list[str]:
    """What is wrong with a kernel's results in one call."""
    storages: dict[int, torch.UntypedStorage] = {}

    def moved(one: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, lambda t: on_copy(t, device, storages), one)

    given, named = moved(call["given"]), moved(call["named"])
    windows = [on_copy(found, device, storages) for found, _, _ in call["results"]]
    kernel(*given, **named)
    back: dict[int, torch.UntypedStorage] = {}
    written = [on_copy(found, "cpu", back) for found in windows]
    words = [
        mismatch(found, low, high) for found, (_, low, high) in zip(written, call["results"], strict=True)
    ]
    return [each for each in words if each]


def count_launches(launches: Counter[str], device: str) -> None:
    """Counts what Triton launches, by the function's name."""
    if device == "cuda":
        triton.knobs.runtime.launch_enter_hook.add(lambda data: launches.update([data.get()["name"]]))
        return
    from triton.runtime.interpreter import GridExecutor

    from longhand.verify.interpretation import mend_interpreter

    mend_interpreter()
    run = GridExecutor.__call__

    def counted(self: Any, *given: Any, **named: Any) -> Any:
        launches.update([self.fn.__name__])
        return run(self, *given, **named)

    GridExecutor.__call__ = counted


def main(words: list[str]) -> int:
    """Launches one kernel on all that it was given."""
    unit, name, path = words[:3]
    device = words[3] if len(words) > 3 else "cuda"
    launches: Counter[str] = Counter()
    count_launches(launches, device)
    kernel = kernel_of(unit, name)
    wrong = []
    with torch.no_grad():
        for number, call in enumerate(torch.load(path, weights_only=True)):
            wrong += [f"wrong in call {number}: {each}" for each in launch(kernel, call, device)]
    for function, number in sorted(launches.items()):
        print(f"launched {function}: {number}")
    print("\n".join(wrong) or "right")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
