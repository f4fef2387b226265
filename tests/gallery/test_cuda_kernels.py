"""Every CUDA kernel of the gallery, in Triton's interpreter at two odd sizes, and compiled to sm_90 without spills."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree

from examples.gallery import ROOT, entries
from longhand.factory import resolve
from tests.triton_compile import compile_launches

HERE = Path(__file__).resolve().parent
CUDA = [entry for entry in entries() if entry.device == "cuda"]


@pytest.mark.parametrize("entry", CUDA, ids=lambda entry: entry.path)
def test_kernels_are_right_in_the_interpreter(entry: Any, tmp_path: Path) -> None:
    environment = dict(
        os.environ,
        TRITON_INTERPRET="1",
        PYTHONPATH=os.pathsep.join((str(HERE.parent.parent), str(HERE))),
    )
    command = [sys.executable, str(HERE / "interpret.py"), entry.path, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split(), "no kernel ran"


@pytest.mark.parametrize("entry", CUDA, ids=lambda entry: entry.path)
def test_kernels_compile_without_spills(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches are recorded on the meta device at the gallery's own sizes, then compiled."""
    folder = ROOT / entry.path
    monkeypatch.syspath_prepend(str(folder.parent))
    package = importlib.import_module(folder.name)
    model = sys.modules[f"{package.__name__}.model"]
    for name in ("check_tensor", "check_tensors", "check_lists_apart", "check_weights"):
        monkeypatch.setattr(model, name, lambda *args, **kwargs: None, raising=False)
    calls: dict[str, tuple[Any, ...]] = {}

    def recorder(name: str) -> Any:
        return lambda *args, **named: calls.setdefault(name, (*args, *named.values()))

    for kernel in package.kernels.__all__:
        monkeypatch.setattr(package.kernels, kernel, recorder(kernel))
    exported = getattr(package, package.__all__[0])
    with torch.set_grad_enabled(entry.train), torch.device("meta"):
        call = exported() if isinstance(exported, type) else exported
        args = pytree.tree_map_only(torch.Tensor, lambda t: t.to("meta"), resolve(entry.factory).args)
        result = (call.to("meta") if isinstance(call, torch.nn.Module) else call)(*args)
        if entry.train:
            result.backward(torch.ones_like(result))
    assert set(calls) == set(package.kernels.__all__)
    for kernel, given in calls.items():
        tensors = [arg for arg in given if isinstance(arg, torch.Tensor | list)]
        module = importlib.import_module(f"{package.__name__}.kernels.{kernel}")
        for usage in compile_launches(module, kernel, tensors, *given[len(tensors) :]):
            assert usage.spill_bytes == 0, usage
