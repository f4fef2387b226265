"""The gallery's units for training on the CPU: alone, without longhand, and against eager and float64."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch

import longhand
from examples.gallery import ROOT, entries
from longhand.factory import resolve
from longhand.verify.comparison import compare

TRAINED = [entry for entry in entries() if entry.train and entry.device == "cpu"]
ALONE = """
import sys
sys.modules["longhand"] = None  # importing it fails
import importlib, torch
unit = importlib.import_module(sys.argv[1])
model = getattr(unit, unit.__all__[0])()
for parameter in model.parameters():
    torch.nn.init.normal_(parameter, std=0.02)
result = model(*eval(sys.argv[2])).mean()
result.backward()
assert all(parameter.grad is not None for parameter in model.parameters())
print(float(result))
"""
CALLS = {
    "gpt_train_cpu": ("(torch.randint(512, (4, 64)), torch.randint(512, (4, 64)))", 5, 8),
    "resnet_block_train_cpu": ("(torch.randn(4, 16, 28, 28, requires_grad=True),)", 0, 1),
}


@pytest.mark.parametrize("unit", [entry.path for entry in TRAINED])
def test_a_unit_trains_where_longhand_cannot_be_imported(unit: str) -> None:
    args, least, most = CALLS[unit]
    done = subprocess.run([sys.executable, "-c", ALONE, unit, args], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert least < float(done.stdout) < most


def gradients(model: torch.nn.Module, args: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    args = tuple(arg.detach().requires_grad_(arg.requires_grad) for arg in args)
    result = model(*args)
    result.backward(torch.ones_like(result))
    found = {path: p.grad.clone() for path, p in model.named_parameters() if p.grad is not None}
    given = {f"argument {place}": arg.grad for place, arg in enumerate(args) if arg.requires_grad}
    statistics = {path: buffer.clone() for path, buffer in model.named_buffers()}
    return {"result": result.detach(), **found, **given, **statistics}


@pytest.mark.parametrize("entry", TRAINED, ids=lambda entry: entry.path)
def test_gradients_are_as_good_as_eagers(entry: Any) -> None:
    torch.manual_seed(0)
    call = resolve(entry.factory)
    assert isinstance(call.model, torch.nn.Module)
    unit = longhand.load(ROOT / entry.path)()
    unit.load_state_dict(call.model.state_dict())
    wide = copy.deepcopy(call.model).double()
    ours, eager = gradients(unit, call.args), gradients(call.model, call.args)
    in_float64 = tuple(
        arg.detach().double().requires_grad_(arg.requires_grad) if arg.is_floating_point() else arg
        for arg in call.args
    )
    exact = gradients(wide, in_float64)
    assert ours.keys() == eager.keys()
    for name, theirs in eager.items():
        # Each of a hundred sums may come out unluckily: four times eager's error, most of them less than it.
        comparison = compare(name, ours[name], theirs, exact[name])
        assert not comparison.note, comparison
        assert comparison.error <= 2 * comparison.bound, comparison
    better = [compare(name, ours[name], theirs, exact[name]).is_right for name, theirs in eager.items()]
    assert sum(better) >= 0.9 * len(better)


def test_twelve_layers_do_not_read_twelve_times_as_long() -> None:
    for unit in ("gpt_train_cpu", "gpt_train_cuda"):
        assert len((ROOT / unit / "backward.py").read_text().splitlines()) < 320
