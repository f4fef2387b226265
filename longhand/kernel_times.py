"""How long each kernel of a unit takes, beside the same kernel as longhand wrote it and beside a plain copy."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from longhand.bench import Times, time_side_by_side
from longhand.emit.merge import BASE, edits
from longhand.emit.writer import read_unit
from longhand.errors import UnitError
from longhand.loading import import_file, load
from longhand.original import read_lock

_COPIED = 64 * 2**20  # bytes read; as many are written
_COPY = "copy"
_turn = (
    itertools.count()
)  # a unit may have been edited since it was timed last: it is imported anew each time


@dataclasses.dataclass(frozen=True)
class KernelTime:
    """One kernel on the arguments of its first call in the unit's own check.

    Attributes:
        times: As the file is.
        base: As longhand last wrote it; None where nobody edited it.
        bytes_moved: In one call, on average over its calls.
        share: Of the copy bandwidth that was measured beside it.
    """

    times: Times
    base: Times | None
    bytes_moved: int
    share: float

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
    source = torch.empty(_COPIED // 4, device=device)
    target = torch.empty_like(source)
    calls[_COPY] = functools.partial(target.copy_, source)
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        arguments = _first_arguments(folder, f"longhand_timed_unit_{number}", calls)
        if edited & set(arguments):
            base = Path(scratch) / "base"
            shutil.copytree(folder / BASE, base)
            for path in folder.glob("*.pt"):
                shutil.copy(path, base)
            originals = import_file(f"longhand_timed_base_{number}", base / "__init__.py", [str(base)])
            check: Any = import_file(f"{originals.__name__}.check", base / "check.py")
            for name in edited & set(arguments):
                kernel = getattr(check.kernels, name)
                calls[f"{name} {BASE}"] = functools.partial(kernel, *arguments[name])
        found = time_side_by_side(calls, device=device, n_turns=n_turns)
    copied = 2 * _COPIED / found[_COPY].median
    times = {}
    for name in arguments:
        n_calls, moved = lock.get("traffic", {}).get(name, (1, 0))
        per_call = moved // max(n_calls, 1)
        share = per_call / found[name].median / copied
        times[name] = KernelTime(found[name], found.get(f"{name} {BASE}"), per_call, share)
    return times


def _first_arguments(folder: Path, package: str, calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each kernel is given first in one call of the model; adds the kernels to `calls`."""
    import_file(package, folder / "__init__.py", [str(folder)])
    check: Any = import_file(f"{package}.check", folder / "check.py")
    arguments: dict[str, Any] = {}

    def recording(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def record(*given: Any) -> Any:
            if name not in arguments:
                arguments[name] = given
                calls[name] = functools.partial(kernel, *given)
            return kernel(*given)

        return record

    check.run_with(recording)
    return arguments
