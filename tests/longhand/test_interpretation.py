"""What longhand mends in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import longhand
from longhand.proof.trial import TrialPlace
from longhand.telling.summary import Summary

LOOP = """
import types

import torch
import triton
import triton.language as tl

from longhand.verify.interpretation import move_to_cpu

unit = types.ModuleType("unit")
sys.modules["unit"], sys.modules["unit.model"] = unit, types.ModuleType("unit.model")
move_to_cpu(unit)


@triton.jit
def sum_kernel(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        total += tl.load(x_ptr + start + columns, mask=start + columns < size, other=0.0)
    tl.store(out_ptr + columns, total)


x, out = torch.arange(40.0), torch.empty(16)
sum_kernel[(1,)](x, out, 40, 16)
assert out.sum() == x.sum()
"""


def test_a_loop_over_a_bound_known_when_it_runs(tmp_path):
    """With triton 3.6 and numpy 2.4 this fails in the interpreter as it comes."""
    file = tmp_path / "loop.py"
    file.write_text("import sys\n" + LOOP)
    environment = dict(os.environ, TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


MENDED = """
import torch
import triton
import triton.language as tl

from longhand.verify.interpretation import mend_interpreter

mend_interpreter()
"""
ROUNDING = """

@triton.jit
def round_kernel(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns, mask=columns < size, other=0.0)
    tl.store(out_ptr + columns, x.to(tl.bfloat16), mask=columns < size)


torch.manual_seed(0)
halfway = torch.tensor([257.0, 259.0, -257.0, 1 + 2.0**-8 + 2.0**-20])
special = torch.tensor([float("nan"), float("inf"), -float("inf"), 3.4e38, -0.0, 1e-40])
x = torch.cat([torch.randn(500), halfway, special])
for values in (x, x.double(), torch.arange(-300, 300)):
    out = torch.empty(len(values), dtype=torch.bfloat16)
    round_kernel[(1,)](values, out, len(values), 1024)
    torch.testing.assert_close(out, values.float().bfloat16(), rtol=0, atol=0, equal_nan=True)
"""
SUMS = """

@triton.jit
def sum_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + rows * COLS + columns)
    tl.store(out_ptr + columns, tl.sum(x, axis=0, keep_dims=True))
    tl.store(out_ptr + COLS + tl.arange(0, COLS), tl.sum(x, axis=0))


x = torch.rand(4096, 4, generator=torch.Generator().manual_seed(0))
out = torch.empty(2, 4)
sum_kernel[(1,)](x, out, 4096, 4)
exact = x.double().sum(0)
error = ((out - exact).abs() / exact).max().item()
assert error < 4 * torch.finfo(torch.float32).eps, error
"""


@pytest.mark.parametrize(
    "program", [ROUNDING, SUMS], ids=["a bfloat16 is the nearest", "sums are added in pairs"]
)
def test_it_computes_what_the_compiler_does(program, tmp_path):
    """As it comes it cuts digits off, and 4096 numbers down a column, one by one, are off by many last places."""
    file = tmp_path / "program.py"
    file.write_text(MENDED + program)
    environment = dict(os.environ, TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def hypot_of_row_and_column(x: torch.Tensor, one: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Seed 302505 of the random programs: the interpreter gave the block the type of the number beside it."""
    rolled = x.roll(-3, -2)
    picked = (1 + torch.arange(33, device=x.device)) % 24
    return torch.hypot(one, rolled).log_softmax(1).gather(1, picked[:, None]), rolled


def hypot_of_broadcast(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Seed 301396: a column and a row make a block, which is neither's type."""
    sizes = torch.hypot(x, other)
    return sizes - sizes.mean(1, keepdim=True)


@pytest.mark.parametrize(
    ("function", "example"),
    [
        (hypot_of_row_and_column, (torch.randn(33, 24), torch.randn(1).bfloat16())),
        (hypot_of_broadcast, (torch.randn(1, 7, 1), torch.randn(7))),
    ],
)
def test_functions_of_libdevice_take_blocks_of_several_shapes(function, example, tmp_path: Path) -> None:
    longhand.generate(function, example, out=tmp_path / "unit", device="cuda", arch="sm_90")


@pytest.mark.parametrize("has_running", [False, True])
def test_statistics_of_short_floats_are_as_on_cuda(has_running: bool, tmp_path: Path, monkeypatch) -> None:
    """On the CPU they are as short as the weights: the kernel of the derivative reads float32, and refused them."""
    monkeypatch.setattr("longhand.api.TrialPlace", TrialPlace)

    class Normed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm2d(8, track_running_stats=has_running)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            normed = self.norm(x)
            return normed * normed.sigmoid()

    x = torch.randn(2, 8, 2, 2).bfloat16()
    summary = longhand.generate(
        Normed().bfloat16(), (x,), out=tmp_path / "unit", device="cuda", arch="sm_90", train=True
    )
    assert isinstance(summary, Summary) and summary.trial.startswith("run once"), summary
