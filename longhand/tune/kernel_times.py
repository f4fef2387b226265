"""How long each kernel of a unit takes, beside the same kernel as longhand wrote it and beside a plain copy."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from longhand.emit.unit.lock_file import read_lock
from longhand.emit.unit.on_disk import BASE, edits, read_unit
from longhand.errors import UnitError
from longhand.loading import import_file, load
from longhand.tune.bench import Times, time_side_by_side
from longhand.tune.own_calls import as_the_unit_calls

_MOST_COPIED = 64 * 2**20  # bytes read; as many are written
_LEAST_COPIED = 4096
_turn = (
    itertools.count()
)  # a unit may have been edited since it was timed last: it is imported anew each time


@dataclasses.dataclass(frozen=True, repr=False)
class KernelTime:
    """One kernel in all of its calls in the unit's own check, taken together.

    Attributes:
        times: Of one call, on average over its calls, as the file is.
        base: As longhand last wrote it; None where nobody edited it.
        bytes_moved: In one call, on average over its calls.
        share: Of the bandwidth of a copy of as many bytes, measured beside it.
    """

    times: Times
    base: Times | None
    bytes_moved: int
    share: float

    def __repr__(self) -> str:
        of_a_copy = f"{self.gb_per_s:.1f} GB/s, {100 * self.share:.0f}% of a copy"
        return f"<KernelTime {self.times.median:.4f} ms, {of_a_copy}>"

    @property
    def gb_per_s(self) -> float:
        """Bytes read and written in a nanosecond."""
        return self.bytes_moved / self.times.median / 1e6


def time_kernels(folder: Path, *, n_turns: int = 7) -> dict[str, KernelTime]:
    """Times every kernel of a unit, in turns with the others.

    Raises:
        UnitError: There is no such unit, or it is for a device that this machine lacks.
        ToolError: The C++ compiler is missing or refuses a kernel.
    """
    lock = read_lock(folder)
    device = str(lock.get("device", "cpu"))
    if device == "cuda" and not torch.cuda.is_available():
        raise UnitError(f"{folder} is for CUDA and this machine has no GPU that torch can use.")
    load(folder, check=False)  # tells what keeps the unit from running
    edited = {Path(path).stem for path, _, _ in edits(read_unit(folder).files) if path.startswith("kernels/")}
    number = next(_turn)
    calls: dict[str, Callable[[], Any]] = {}
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        arguments = recorded_calls(folder, f"longhand_timed_unit_{number}", calls)
        if edited & set(arguments):
            base = Path(scratch) / "base"
            shutil.copytree(folder / BASE, base)
            for path in folder.glob("*.pt"):
                shutil.copy(path, base)
            originals = import_file(f"longhand_timed_base_{number}", base / "__init__.py", [str(base)])
            check: Any = import_file(f"{originals.__name__}.check", base / "check.py")
            for name in edited & set(arguments):
                kernel = getattr(check.kernels, name)
                calls[f"{name} {BASE}"] = functools.partial(run_calls, kernel, arguments[name])
        moved = {name: _bytes_of_a_call(lock, name) for name in arguments}
        for n_bytes in {_copied(one) for one in moved.values()}:
            source = torch.empty(n_bytes // 4, device=device)
            calls[f"a copy of {n_bytes}"] = functools.partial(torch.empty_like(source).copy_, source)
        measured = time_side_by_side(calls, device=device, n_turns=n_turns)
    times = {}
    for name, given in arguments.items():
        n_calls = sum(one.count for one in given.values())
        own, written = measured[name], measured.get(f"{name} {BASE}")
        n_bytes = _copied(moved[name])
        bandwidth = 2 * n_bytes / measured[f"a copy of {n_bytes}"].median
        share = moved[name] * n_calls / own.median / bandwidth
        times[name] = KernelTime(_each(own, n_calls), written and _each(written, n_calls), moved[name], share)
    return times


def _bytes_of_a_call(lock: Mapping[str, Any], name: str) -> int:
    n_calls, moved = lock.get("traffic", {}).get(name, (1, 0))
    return int(moved) // max(int(n_calls), 1)


def _copied(moved: int) -> int:
    """The bytes that a copy reads which moves about as many as a kernel: a power of two."""
    return min(_MOST_COPIED, max(_LEAST_COPIED, 2 ** round(math.log2(max(moved, 2) / 2))))


def _each(times: Times, n_calls: int) -> Times:
    return dataclasses.replace(times, median=times.median / n_calls, minimum=times.minimum / n_calls)


@dataclasses.dataclass
class KernelArguments:
    """What a kernel is given at one set of sizes, and how often."""

    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    count: int = 0


def run_calls(kernel: Callable[..., Any], given: Mapping[object, KernelArguments]) -> None:
    """All of a kernel's calls."""
    for one in given.values():
        for _ in range(one.count):
            kernel(*one.arguments, **one.named)


def recorded_calls(
    folder: Path,
    package: str,
    calls: dict[str, Callable[[], Any]],
    see: Callable[[str, tuple[Any, ...]], None] = lambda *_: None,
) -> dict[str, dict[object, KernelArguments]]:
    """What each kernel is given in one call of the model, by its sizes; adds the kernels to `calls`.

    `see` is shown a kernel's name and arguments, in order, before it runs, once for each set of sizes: afterwards
    the arguments may hold its results.
    """
    import_file(package, folder / "__init__.py", [str(folder)])
    check: Any = import_file(f"{package}.check", folder / "check.py")
    arguments: dict[str, dict[object, KernelArguments]] = {}

    def recording(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def record(*given: Any, **named: Any) -> Any:
            every = (*given, *named.values())
            sizes = tuple(tuple(one.shape) if isinstance(one, torch.Tensor) else str(one) for one in every)
            known = arguments.setdefault(name, {})
            if sizes not in known:
                see(name, inspect.signature(check.KERNELS[name][0]).bind(*given, **named).args)
            known.setdefault(sizes, KernelArguments(given, named)).count += 1
            calls[name] = functools.partial(run_calls, as_the_unit_calls(kernel), known)
            return kernel(*given, **named)

        return record

    check.run_with(recording)
    return arguments
