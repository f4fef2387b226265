"""`longhand tune` on a GPU: slow tunables are found, what does not fit is skipped, files stay right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import longhand
from longhand.tune.contest import Contest
from longhand.tune.tuning import tune
from longhand.verify.checking import check_kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def softmax(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.125 + bias, dim=-1)


def transpose_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous() + y


def set_tunable(unit: Path, kernel: str, old: str, new: str) -> None:
    """As if longhand had written it so."""
    for path in (unit / f"kernels/{kernel}.py", unit / f".base/kernels/{kernel}.py"):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))


def test_slow_tunables_are_found_and_the_kernel_stays_right(tmp_path: Path) -> None:
    unit = tmp_path / "softmax"
    x = torch.randn(4096, 16384, device="cuda", dtype=torch.bfloat16)
    longhand.generate(softmax, (x, x[0].clone()), out=unit)
    (kernel,) = json.loads((unit / "longhand.lock").read_text())["kernels"]
    set_tunable(unit, kernel, "WARP_ELEMENTS = 1024", "WARP_ELEMENTS = 16384")  # one warp for a whole row
    (tuning,) = tune(unit, budget=60)
    assert tuning.is_changed and tuning.after["WARP_ELEMENTS"] != 16384
    assert tuning.ms_before is not None and tuning.ms_after is not None
    assert f"WARP_ELEMENTS = {tuning.after['WARP_ELEMENTS']}  #" in (unit / tuning.path).read_text()
    assert all(row.is_right for row in check_kernels(unit).kernels)
    print(f"{tuning.before} {tuning.ms_before:.4f} ms -> {tuning.after} {tuning.ms_after:.4f} ms")
    print(f"noise {100 * tuning.noise:.2f}%, {tuning.n_tried} tried, skipped {tuning.skipped}")


def test_what_does_not_fit_is_skipped_with_the_reason(tmp_path: Path) -> None:
    unit = tmp_path / "transpose"
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    longhand.generate(transpose_add, (x, torch.randn_like(x)), out=unit)
    (kernel,) = json.loads((unit / "longhand.lock").read_text())["kernels"]
    with Contest(unit) as contest:
        path = f"kernels/{kernel}.py"
        assert contest.refusal(path, {"TILE": 64}) is None
        assert contest.refusal(path, {"TILE": 100}) is not None, "no power of two"
        reason = contest.refusal(path, {"TILE": 256, "NUM_WARPS": 2})
        assert reason is not None and ("spills" in reason or "shared memory" in reason)
        assert contest.refusal(path, {"TILE": 32}) is None, "the worker goes on"
        print(f"TILE 256 with 2 warps: {reason}")
