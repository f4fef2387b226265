"""A target is a folder: tests/numpy_target is registered here, and no file of the product knows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import longhand
from longhand.errors import KernelWarning, OptionError
from longhand.options import Device, Target
from longhand.schedule.targets import TARGETS, facts_of
from longhand.targets import register
from longhand.verify.verification import verify
from tests.checkout import ROOMS, ROOT
from tests.numpy_target import NUMPY
from tests.numpy_target.printer import NumpyLoops


class Block(torch.nn.Module):
    """Elementwise, rows, columns, a transposition, a library call."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(24)
        self.projection = torch.nn.Linear(24, 24)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = self.projection(self.norm(x) * 2)
        weights = torch.softmax(torch.where(mask, scores, -torch.inf), dim=-1)
        return weights, torch.tanh(weights).sum(0), (x + 1).t().contiguous()


def example() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Block().eval(), (torch.randn(20, 24), torch.rand(20, 24) > 0.3)


def test_a_registered_target_generates_a_unit_that_runs(tmp_path: Path) -> None:
    model, (x, mask) = example()
    longhand.generate(model, (x, mask), out=tmp_path / "unit", device="numpy", factory=f"{__name__}:example")
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    for found, wanted in zip(unit(x, mask), model(x, mask), strict=True):
        torch.testing.assert_close(found, wanted)
    kernels = [p for p in (tmp_path / "unit" / "kernels").glob("*.py") if p.name != "__init__.py"]
    assert len(kernels) >= 3 and not list((tmp_path / "unit" / "kernels").glob("*.cpp"))
    for kernel in kernels:
        assert "for " in kernel.read_text() and "np.float32(" in kernel.read_text()
    assert "numpy" in (tmp_path / "unit" / "README.md").read_text()
    lock = json.loads((tmp_path / "unit" / "longhand.lock").read_text())
    assert (lock["device"], lock["language"]) == ("cpu", "numpy")
    report = verify(tmp_path / "unit")
    assert len(report.kernels) >= 3 and report.is_right, report


def test_what_the_language_cannot_say_costs_the_kernel(tmp_path: Path) -> None:
    def half(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) + 1

    x = torch.randn(40).bfloat16()
    with pytest.warns(KernelWarning, match="NumPy has no bfloat16"):
        longhand.generate(half, (x,), out=tmp_path / "unit", device="numpy")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(x), half(x))


def test_a_name_is_one_target() -> None:
    with pytest.raises(OptionError, match="a target cpu already"):
        register(TARGETS["cpu"].__class__("cpu", Device.CPU, "f90"), NumpyLoops())
    register(NUMPY, NumpyLoops())  # once more is no other
    with pytest.raises(OptionError, match="fortran"):
        facts_of(Target(Device.CPU, language="fortran"))


def test_nobody_but_the_lists_names_a_target() -> None:
    """Decisions and printers ask for a fact; numbers that were measured stand by name with the kernel schedules."""
    asking = {
        str(path.relative_to(ROOT))
        for room in ("schedule", "emit")
        for path in (ROOT / room).rglob("*.py")
        if "Device.C" in path.read_text(encoding="utf-8") or " import CPP" in path.read_text(encoding="utf-8")
    }
    of_torch = {
        name for name in asking if name.startswith("emit/module/")
    }  # where memory is, and what is checked
    measured = {name for name in asking if name.startswith("schedule/kernels/schedules/")}
    assert asking - of_torch - measured == {"schedule/targets.py"}
    assert not any("numpy_target" in p.read_text() for room in ROOMS for p in (ROOT / room).rglob("*.py"))
    assert len({p.parent for p in (ROOT / "tests" / "numpy_target").rglob("*.py")}) == 1  # folder
