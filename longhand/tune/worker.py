"""Builds, checks and times a kernel with other tunables, in a process of its own: such a kernel may crash it.

``python -m longhand.tune.worker FD FOLDER`` answers requests that `tune.py` sends through a socket: what a kernel is
called with in one call of the model, whether it is right with some values of its tunables, how long it takes with
several. The unit's own files stay as they are: each candidate is a copy of the unit with one line changed.

A candidate is checked in every call that the model makes of the kernel, on the same bytes, against longhand's own
reference from `.base/` in float64, by the rule of the unit's check.py. Its results are spoiled before it runs.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from longhand.emit.unit.on_disk import BASE
from longhand.loading import import_file
from longhand.tune.bench import turns_side_by_side
from longhand.tune.own_calls import as_the_unit_calls
from longhand.tune.tunable_text import with_values
from longhand.verify.check_worker import trusted_check

_PACKAGE = "longhand_tuned_unit"
_CRASHED = 70  # exit code: the device cannot be used any more in this process

Values = Mapping[str, int]


class Workshop:
    """One unit, and candidates of its kernels.

    Args:
        folder: A copy of the unit that nobody else writes to; copies of it are made beside it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        import_file(_PACKAGE, folder / "__init__.py", [str(folder)])
        self._check = trusted_check(folder, _PACKAGE)
        self.device = str(self._check.DEVICE)
        self._n_copies = 0
        self._candidates: dict[tuple[str, tuple[tuple[str, int], ...]], Callable[..., Any]] = {}
        self._calls = self._record()

    def n_calls(self) -> dict[str, int]:
        """How often each kernel is called in one call of the model."""
        return {name: sum(call.count for call in calls) for name, calls in self._calls.items()}

    @torch.no_grad()
    def refusal(self, path: str, values: Values) -> str | None:
        """Why a kernel's file cannot have these values; None if it can."""
        name = Path(path).stem
        try:
            kernel = self._candidate(path, values)
            for call in self._calls[name]:
                if reason := call.mismatch(self._check, name, kernel):
                    return reason
            spills = _most_spills(kernel)
            if spills > _most_spills(self._candidate(path, {})):
                return f"spills {spills} registers to memory"
        except Exception as error:
            self._leave_if_broken()
            return _in_words(error)
        return None

    @torch.no_grad()
    def turns(self, path: str, contestants: list[Values], n_turns: int) -> list[list[float]]:
        """Seconds of all of a kernel's calls in one call of the model, turn by turn, for each set of values."""
        calls = self._calls[Path(path).stem]
        for call in calls:
            call.restore()

        def run(kernel: Callable[..., Any]) -> Callable[[], None]:
            launch = as_the_unit_calls(kernel)

            def run_all() -> None:
                for call in calls:
                    for _ in range(call.count):
                        launch(*call.arguments, **call.named)

            return run_all

        named = {f"{number}": run(self._candidate(path, values)) for number, values in enumerate(contestants)}
        return list(turns_side_by_side(named, device=self.device, n_turns=n_turns, is_paired=True).values())

    def _record(self) -> dict[str, list[_Call]]:
        """What each kernel is called with, once for each set of sizes."""
        recorded_calls: dict[str, dict[object, _Call]] = {}

        def recording(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
            def record(*given: Any, **named: Any) -> Any:
                calls = recorded_calls.setdefault(name, {})
                key = tuple(
                    (one.dtype, tuple(one.shape), one.stride()) if isinstance(one, torch.Tensor) else one
                    for one in (*given, *named.values())
                )
                if key in calls:
                    calls[key].count += 1
                else:
                    calls[key] = _Call(given, named)
                return kernel(*given, **named)

            return record

        # With gradients on: in a training unit the backward kernels are called too.
        self._check.run_with(recording)
        return {name: list(calls.values()) for name, calls in recorded_calls.items()}

    def _candidate(self, path: str, values: Values) -> Callable[..., Any]:
        """The kernel with these values (the others as they are), from a copy of the unit."""
        name = Path(path).stem
        key = (name, tuple(sorted(values.items())))
        if key not in self._candidates:
            self._n_copies += 1
            package = f"{_PACKAGE}_{self._n_copies}"
            copy = self._folder.with_name(package)
            copy_unit(self._folder, copy, has_base=False)
            text = (copy / path).read_bytes().decode()
            (copy / path).write_bytes(with_values(text, path, values).encode())
            import_file(package, copy / "__init__.py", [str(copy)])
            kernels: Any = importlib.import_module(f"{package}.kernels")
            self._candidates[key] = getattr(kernels, name)
        return self._candidates[key]

    def _leave_if_broken(self) -> None:
        """Ends the process where a kernel left the GPU's context unusable: the next one starts anew."""
        if self.device == "cuda":
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                os._exit(_CRASHED)


class _Call:
    """One call of a kernel, on memory of its own.

    Args:
        given: Its arguments; tensors that share memory share it in the copy too.
        named: Those by keyword.
    """

    @torch.no_grad()
    def __init__(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        self.count = 1
        storages: dict[int, torch.UntypedStorage] = {}

        def own(one: Any) -> Any:
            return _on_copy(one, storages) if isinstance(one, torch.Tensor) else one

        self.arguments = tuple(map(own, given))
        self.named = {word: own(one) for word, one in named.items()}
        self._storages = list(storages.values())
        self._bytes = [storage.clone() for storage in self._storages]
        self._expected: list[tuple[torch.Tensor, torch.Tensor, float]] = []

    def mismatch(self, check: Any, name: str, kernel: Callable[..., Any]) -> str:
        """What is wrong with the kernel's results; empty if nothing is."""
        windows, reference = check.KERNELS[name]
        self.restore()
        read, written = windows(*self.arguments, **self.named)
        if not self._expected:
            exact = check.results_of(reference, check.as_double(read))
            plain = check.results_of(reference, read)
            for ours, one_exact, one_plain in zip(written, exact, plain, strict=True):
                one_exact, one_plain = one_exact.expand_as(ours), one_plain.to(ours.dtype).expand_as(ours)
                limit = check.allowed(ours, one_exact, one_plain)
                self._expected.append((one_exact.clone(), one_plain.clone(), limit))
        addresses = {
            one.untyped_storage().data_ptr() for one in read.values() if isinstance(one, torch.Tensor)
        }
        for ours, (_, plain, _) in zip(written, self._expected, strict=True):
            if ours.untyped_storage().data_ptr() not in addresses:
                ours.copy_(_spoiled(plain))
        kernel(*self.arguments, **self.named)
        for ours, (exact, plain, limit) in zip(written, self._expected, strict=True):
            if mismatch := check.first_mismatch(ours, exact, plain, limit):
                return f"computes something else {mismatch}"
        return ""

    def restore(self) -> None:
        """Puts the bytes back that a kernel which works in place has changed."""
        for storage, content in zip(self._storages, self._bytes, strict=True):
            storage.copy_(content)


def copy_unit(folder: Path, target: Path, *, has_base: bool) -> None:
    """A copy of a unit, with or without `.base/`; large tensors are linked."""
    target.mkdir()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        is_left_out = relative.parts[0] == BASE and not has_base
        if is_left_out or "__pycache__" in relative.parts or not path.is_file():
            continue
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".pt":
            (target / relative).symlink_to(path.resolve())
        else:
            shutil.copyfile(path, target / relative)


def _on_copy(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in storages:
        storages[storage.data_ptr()] = storage.clone()
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return empty.set_(storages[storage.data_ptr()], tensor.storage_offset(), tensor.shape, tensor.stride())


def _spoiled(expected: torch.Tensor) -> torch.Tensor:
    """A tensor that is wrong everywhere."""
    if expected.dtype == torch.bool:
        return ~expected
    return torch.full_like(expected, torch.nan) if expected.is_floating_point() else expected + 1


def _most_spills(kernel: Callable[..., Any]) -> int:
    """The most registers that Triton spilled in what it compiled for a kernel's file; 0 for C++."""
    most = 0
    for value in vars(sys.modules[kernel.__module__]).values() if hasattr(kernel, "__code__") else ():
        compiled = getattr(getattr(value, "kernel", value), "device_caches", {})
        for cache, *_ in compiled.values():
            most = max(most, *(getattr(one, "n_spills", 0) or 0 for one in cache.values()), 0)
    return most


def _in_words(error: Exception) -> str:
    """An exception as half a line: Triton's on shared memory by its numbers, a compiler's by its first error."""
    if hasattr(error, "required") and hasattr(error, "limit"):
        what = getattr(error, "name", "the device's memory")
        return f"needs {error.required} of {what}, and {error.limit} are there"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if " error: " in line:
            return line.partition(" error: ")[2]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


def main(connection: Connection, folder: Path) -> None:
    """Answers until the other side is gone."""
    try:
        workshop = Workshop(folder)
    except Exception as error:
        connection.send(_in_words(error))
        return
    connection.send((workshop.n_calls(), workshop.device))
    while True:
        try:
            request, *arguments = connection.recv()
        except EOFError:
            return
        connection.send(getattr(workshop, request)(*arguments))


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), Path(sys.argv[2]))
