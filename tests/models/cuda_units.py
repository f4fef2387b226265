"""One model as a CUDA unit on a machine without a GPU: written, run in Triton's interpreter, and compared.

Needs TRITON_INTERPRET=1. A kernel that raises costs itself only: its reference takes its place, so that one run tells
of every kernel. What each kernel was launched with is kept, so that another process can compile it
(tests/models/cuda_compile.py).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.utils._pytree as pytree

import longhand
import longhand.pipeline
from longhand.factory import Call
from longhand.loading import import_file
from longhand.verify.check_worker import trusted_check
from longhand.verify.comparison import Comparison
from longhand.verify.eager_check import compare_whole
from longhand.verify.interpretation import move_to_cpu

_PACKAGE = "longhand_swept_unit"
LAUNCHES = "launches.jsonl"
STARTED = "started.txt"
_FACTOR = 2  # of what verify allows: rows of a few elements are at the mercy of one rounding


@dataclasses.dataclass
class Findings:
    """What is wrong with a unit, in words; nothing, if it is right."""

    problems: list[str]
    n_kernels: int = 0


def try_unit(call: Call, folder: Path, train: bool) -> Findings:
    """Writes the CUDA unit of a call and compares each of its kernels and the whole.

    Args:
        call: A module and its arguments, on the CPU.
        folder: Where the unit is written; what it launched is kept beside it.
        train: With its backward pass.
    """
    unit_folder = folder / "unit"
    started = folder / STARTED
    started.write_text("generating")
    try:
        model = copy.deepcopy(call.model).train(train)
        with torch.set_grad_enabled(train), _compiled_later():
            longhand.generate(
                model,
                call.args,
                call.kwargs,
                out=unit_folder,
                device="cuda",
                arch="sm_90",
                train=train,
                run=False,  # the whole is compared with eager below
            )
    except Exception as error:
        return Findings([f"generate: {in_words(error)}"])
    started.write_text("importing")
    try:
        package = import_file(_PACKAGE, unit_folder / "__init__.py", [str(unit_folder)])
        move_to_cpu(package)
        check = trusted_check(unit_folder, _PACKAGE)
    except Exception as error:
        return Findings([f"import: {in_words(error)}"])
    check.DEVICE = "cpu"
    kernels = list(check.KERNELS)
    found = Findings([], len(kernels))
    with (folder / LAUNCHES).open("w") as launches:
        for name in kernels:
            _record(importlib.import_module(f"{_PACKAGE}.kernels.{name}"), name, launches)
        found.problems += _checked_kernels(check, started)
        started.write_text("the whole")
        if not found.problems:
            found.problems += _compared_whole(unit_folder, getattr(package, package.__all__[0]), call, train)
    return found


def _compiled_later() -> contextlib.AbstractContextManager[object]:
    """Kernels are not compiled as the unit is written, which starts a compiler for each model and keeps one that fails
    as PyTorch calls: what is launched is compiled in one process for all models, and one that fails is told.
    """
    return mock.patch.multiple(longhand.pipeline, faulty_kernels=lambda *_: {}, make_ready=lambda _: None)


def _checked_kernels(check: Any, started: Path) -> list[str]:
    """Each kernel against its reference; one that raises is replaced by the reference from there on."""
    problems: list[str] = []
    rows: list[tuple[Any, ...]] = []
    broken: set[str] = set()

    def replacement(name: str, kernel: Callable[..., None]) -> Callable[..., None]:
        checked = check.with_check(name, kernel, lambda *row: rows.append(row))
        stand_in = check.with_reference(name, dict)

        def run(*given: Any, **named: Any) -> None:
            if name in broken:
                stand_in(*given, **named)
                return
            started.write_text(name)
            try:
                checked(*given, **named)
            except Exception as error:
                broken.add(name)
                problems.append(f"kernel {name}: {in_words(error)}")
                stand_in(*given, **named)

        return run

    try:
        check.run_with(replacement)
    except Exception as error:
        problems.append(f"check: {in_words(error)}")
    wrong: set[str] = set()
    for name, sizes, error, limit, mismatch in rows:
        if not error <= limit and name not in wrong:
            wrong.add(name)
            problems.append(f"kernel {name}{sizes}: WRONG by {error:.2g} (allowed {limit:.2g}) {mismatch}")
    called = {row[0] for row in rows} | broken
    return problems + [f"kernel {name}: never called" for name in check.KERNELS if name not in called]


def _compared_whole(folder: Path, unit: object, call: Call, train: bool) -> list[str]:
    model = copy.deepcopy(call.model).train(train)
    try:
        rows = compare_whole(folder, unit, Call(model, call.args, call.kwargs))
    except Exception as error:
        return [f"whole: {in_words(error)}"]
    return [_told(row) for row in rows if row.note or row.error > _FACTOR * row.bound]


def _told(row: Comparison) -> str:
    numbers = f"error {row.error:.2g}, eager's {row.eager_error:.2g}, allowed {row.bound:.2g}"
    return f"whole {row.name}: WRONG {row.note or numbers} {row.mismatch}"


def _record(module: Any, name: str, launches: Any) -> None:
    """Keeps what the kernels of a file are launched with, before they are: they may crash the process."""
    for function, kernel in list(vars(module).items()):
        if function.endswith("_kernel") and hasattr(kernel, "arg_names"):
            setattr(module, function, _Recorder(kernel, name, function, launches))


@dataclasses.dataclass
class _Recorder:
    kernel: Any
    name: str
    function: str
    launches: Any
    seen: set[str] = dataclasses.field(default_factory=set)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        def launch(*args: Any, **options: Any) -> Any:
            plain = pytree.tree_map(_plain, (list(args), options))
            line = json.dumps([self.name, self.function, *plain])
            if line not in self.seen:
                self.seen.add(line)
                self.launches.write(line + "\n")
                self.launches.flush()
            return self.kernel[grid](*args, **options)

        return launch


def _plain(value: Any) -> Any:
    return str(value.dtype) if isinstance(value, torch.Tensor) else value


def in_words(error: BaseException) -> str:
    """An error in a line or two, its cause before it."""
    seen: list[str] = []
    current: BaseException | None = error
    while current is not None and len(seen) < 2:
        lines = [line.strip() for line in str(current).splitlines() if line.strip()]
        seen.append(f"{type(current).__name__}: {' | '.join(lines[-3:] if len(lines) > 3 else lines)[:300]}")
        current = current.__cause__
    return " <- ".join(seen)
