"""Units whose images are channels last: run on the CPU (CUDA's kernels in Triton's interpreter), text and compile."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.loading import bound
from tests.triton_compile import compile_launches


class Net(nn.Module):
    """A stem, a residual block and a result that is an image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 72, 3, stride=2, padding=1)
        self.conv = nn.Conv2d(72, 72, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(72)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = F.max_pool2d(F.relu(self.stem(x * 2)), 2)
        out = F.relu(self.norm(self.conv(out)) + out)
        return out, self.conv(out)


RUN = """
import copy, sys
import torch
sys.path.insert(0, sys.argv[1])
import unit
from unit import check
state, x = torch.load(sys.argv[1] + "/given.pt")
model = unit.Net().eval()
model.load_state_dict(state)
model = copy.deepcopy(model).to("cpu")
assert model.conv.weight.is_contiguous(memory_format=torch.channels_last)
with torch.no_grad():
    results = list(model(x))
    model.conv.weight.mul_(2)
    results += list(model(x))
    model.load_state_dict(state, assign=True)
    results += list(model(x))
assert not model.conv.weight.is_contiguous(memory_format=torch.channels_last)
torch.save(results, sys.argv[1] + "/results.pt")
sys.exit(check.main([]))
"""


@pytest.fixture(scope="module")
def net() -> tuple[nn.Module, torch.Tensor]:
    """The model with statistics of its own, and an input."""
    torch.manual_seed(0)
    model = Net().eval()
    assert model.norm.running_mean is not None and model.norm.running_var is not None
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2.0)
    return model, torch.randn(2, 3, 18, 14)


@pytest.fixture(scope="module")
def unit(net: tuple[nn.Module, torch.Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unit for CUDA."""
    folder = tmp_path_factory.mktemp("channels_last") / "unit"
    longhand.generate(net[0], (net[1],), out=folder, device="cuda", arch="sm_90")
    return folder


def test_the_unit_computes_what_eager_does(net: tuple[nn.Module, torch.Tensor], unit: Path) -> None:
    model, x = net
    for name in ("model.py", "check.py"):
        path = unit / name
        path.write_text(path.read_text().replace('"cuda"', '"cpu"'))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.save((state, x), unit.parent / "given.pt")
    environment = dict(os.environ, TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    run = subprocess.run(
        [sys.executable, "-c", RUN, str(unit.parent)], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    with torch.no_grad():
        expected = list(model(x))
        model.conv.weight.mul_(2)
        expected += list(model(x))
        model.load_state_dict(state)
        expected += list(model(x))
    for ours, eager in zip(torch.load(unit.parent / "results.pt"), expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
        assert ours.stride() == eager.stride()


def test_the_text_reads_like_eager_code(unit: Path) -> None:
    text = (unit / "model.py").read_text()
    assert "self.conv = Weights(weight=filters(72, 72, 3, 3))" in text
    assert " = conv2d(" in text and "F.conv2d(" not in text and "permute" not in text
    assert ".contiguous(" not in text


def test_the_kernels_compile(unit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(unit.parent), *sys.path])
    files = sorted(path.stem for path in (unit / "kernels").glob("*.py") if path.stem != "__init__")
    assert len(files) >= 3
    for name in files:
        module = importlib.import_module(f"unit.kernels.{name}")
        parameters = getattr(module, name).__code__.co_varnames[: getattr(module, name).__code__.co_argcount]
        sizes = [name for name in parameters if name.startswith("n_") or name.endswith(("eps", "_stride"))]
        tensors = [torch.empty(1, device="meta") for _ in range(len(parameters) - len(sizes))]
        numbers = [1e-5 if size == "eps" else 2 if "window" in size else 72 for size in sizes]
        for usage in compile_launches(module, name, tensors, *numbers):
            assert usage.spill_bytes == 0, usage


def test_the_users_own_weights_are_taken_as_they_are(
    net: tuple[nn.Module, torch.Tensor], tmp_path: Path
) -> None:
    model, x = net
    longhand.generate(model, (x,), out=tmp_path / "cpu_unit")
    ours = bound(longhand.load(tmp_path / "cpu_unit"), model)
    with torch.no_grad():
        for result, eager in zip(ours(x), model(x), strict=True):
            torch.testing.assert_close(result, eager, rtol=1e-4, atol=1e-4)


def test_results_of_permuted_tensors_have_eagers_strides(tmp_path: Path) -> None:
    def shift(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.permute(0, 2, 3, 1) + 1, (x * 2).transpose(0, 1), x.transpose(1, 2).relu()

    x = torch.randn(3, 4, 5, 6)
    longhand.generate(shift, (x,), out=tmp_path / "shift")
    for ours, eager in zip(longhand.load(tmp_path / "shift")(x), shift(x), strict=True):
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()


class Pooled(nn.Module):
    """What is pooled is convolved again, and the places of the maxima are read."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(72, 72, 3)
        self.conv = nn.Conv2d(72, 72, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pooled, indices = F.max_pool2d(self.stem(x), 2, return_indices=True)
        return self.conv(pooled).mean((2, 3)), indices.float().mean((2, 3))


def test_both_results_of_a_pooling_lie_as_its_images_do(emit: Any) -> None:
    files = emit(Pooled(), (torch.randn(1, 72, 10, 10),), device="cuda")
    assert ".contiguous(" not in str(files["model.py"]), "it is known how they lie"
