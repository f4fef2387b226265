"""Every kernel of a model's CUDA unit, compiled to a binary without a GPU; or run in Triton's interpreter."""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

import longhand
from benchmarks.architectures.calls import tensors
from benchmarks.architectures.example import Example
from benchmarks.architectures.rows import Result, Verdict
from longhand.errors import CaptureError
from longhand.telling.summary import Summary
from longhand.verify.interpretation import MadeOn
from longhand.verify.verification import verify
from tests.triton_compile import compile_launches

_CHECKS = ("check_tensor", "check_tensors", "check_lists_apart", "check_weights")


def cubin_result(example: Example, arch: str, *, train: bool) -> Result:
    """Generates the unit and compiles each kernel as the model launches it; one that fails is told by name."""
    with tempfile.TemporaryDirectory(prefix="cubins_") as workshop, _on_path(workshop):
        folder = (
            Path(workshop) / f"unit_{Path(workshop).name}"
        )  # a name that no other unit of this process has
        module, args, kwargs = example
        try:
            summary = _generated(module, args, kwargs, folder, arch, train=train)
        except CaptureError as error:
            _call_once(example, error, train=train)
            summary = _generated(module, args, kwargs, folder, arch, train=train)
        package = importlib.import_module(folder.name)
        calls = _recorded(package, example, train=train)
        failures, spills = [], 0
        for kernel, given in calls.items():
            named = importlib.import_module(f"{package.__name__}.kernels.{kernel}")
            lists = [arg for arg in given if isinstance(arg, torch.Tensor | list)]
            try:
                usages = compile_launches(named, kernel, lists, *given[len(lists) :])
                spills += sum(usage.spill_bytes for usage in usages)
            except Exception as error:
                failures.append(f"{kernel}: {type(error).__name__}: {_last_line(str(error))}")
        missing = set(package.kernels.__all__) - set(calls) if summary.n_kernels else set()
    n_bytes = summary.kernel_bytes + summary.library_bytes
    numbers = {
        "kernels": len(calls),
        "failed": len(failures),
        "spill_bytes": spills,
        "share": summary.kernel_bytes / n_bytes if n_bytes else 1.0,
    }
    if failures:
        return Result(Verdict.FAILED, "; ".join(failures), numbers)
    if missing:
        return Result(Verdict.WRONG, f"never called: {', '.join(sorted(missing))}", numbers)
    return Result(Verdict.RIGHT, "", numbers)


def interpreted_result(row: str, example: Example, arch: str, *, train: bool) -> Result:
    """``longhand verify`` of the CUDA unit: each kernel and the whole, on the CPU."""
    with tempfile.TemporaryDirectory() as workshop:
        folder = Path(workshop) / "unit"
        place = "benchmarks.architectures.catalog"
        factory = f"{place}:{'train/' if train else ''}{row}"
        module, args, kwargs = example
        try:
            _generated(module, args, kwargs, folder, arch, train=train, factory=factory)
        except CaptureError as error:
            _call_once(example, error, train=train)
            factory = f"{place}:called/{'train/' if train else ''}{row}"
            _generated(module, args, kwargs, folder, arch, train=train, factory=factory)
        verified = verify(folder, factory)
    wrong = [
        f"{check.name}: {check.mismatch or check.error}" for check in verified.kernels if not check.is_right
    ]
    wrong += [f"{one.name}: {one.note or one.mismatch}" for one in verified.whole if not one.is_right]
    numbers = {"kernels": len({check.name for check in verified.kernels})}
    return (
        Result(Verdict.WRONG, "; ".join(wrong)[:300], numbers)
        if wrong
        else Result(Verdict.RIGHT, "", numbers)
    )


def _call_once(example: Example, error: CaptureError, *, train: bool) -> None:
    """Calls a model that keeps something on its first call for the later ones; those are what a unit can be made of.

    Raises:
        CaptureError: It was refused for another reason: the one that is given.
    """
    if "while it runs" not in str(error):
        raise error
    module, args, kwargs = example
    with torch.set_grad_enabled(train):
        module(*args, **kwargs)


@contextlib.contextmanager
def _on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _generated(
    module: Any, args: Any, kwargs: Any, folder: Path, arch: str, *, train: bool, factory: str | None = None
) -> Summary:
    made = longhand.generate(
        module,
        args,
        kwargs,
        out=folder,
        device="cuda",
        arch=arch,
        train=train,
        frontend="bytecode",
        factory=factory,
    )
    assert isinstance(made, Summary)
    return made


def _recorded(package: Any, example: Example, *, train: bool) -> dict[str, tuple[Any, ...]]:
    """The first call of each kernel's host function: on the GPU if there is one, else on the meta device.

    There the kernels do nothing, and an operation whose sizes are data has no values to find them by.
    """
    device = "cuda" if torch.cuda.is_available() else "meta"
    model = sys.modules[f"{package.__name__}.model"]
    for name in _CHECKS:
        if hasattr(model, name):
            setattr(model, name, lambda *args, **kwargs: None)
    calls: dict[str, tuple[Any, ...]] = {}

    def recorder(name: str, host: Any) -> Any:
        def record(*args: Any, **named: Any) -> None:
            calls.setdefault(name, pytree.tree_map(_on("meta"), (*args, *named.values())))
            if device == "cuda":
                host(*args, **named)

        return record

    for kernel in package.kernels.__all__:
        setattr(package.kernels, kernel, recorder(kernel, getattr(package.kernels, kernel)))
    exported = getattr(package, package.__all__[0])
    module, *given = example
    args, kwargs = pytree.tree_map(_on(device), given)
    with torch.set_grad_enabled(train), torch.device(device), MadeOn(device):
        unit = exported() if isinstance(exported, type) else exported
        if isinstance(unit, torch.nn.Module):
            unit = unit.to(device).train(train)
            unit.load_state_dict(module.state_dict())
        results = tensors(unit(*args, **kwargs))
        if train:
            carrying = [value for value in results if value.requires_grad]
            torch.autograd.backward(carrying, [torch.ones_like(value) for value in carrying])
    return calls


def _on(device: str) -> Callable[[Any], Any]:
    """Moves what is a tensor."""
    return lambda value: value.to(device) if isinstance(value, torch.Tensor) else value


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")[:160]
