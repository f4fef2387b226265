"""A norm's whole backward pass is one kernel for the GPU: right at odd sizes, and the same in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(("norm", "dtype"), [("layer_norm", "bfloat16"), ("rms_norm", "float32")])
def test_gradients_of_a_norm_from_one_reading(norm: str, dtype: str, tmp_path: Path) -> None:
    environment = dict(os.environ, TRITON_INTERPRET="1", PYTHONPATH=str(HERE.parent.parent))
    command = [sys.executable, str(HERE / "norm_backward_worker.py"), str(tmp_path), norm, dtype]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert any(f"d_add_{norm}" in kernel for kernel in done.stdout.split()), done.stdout


def test_a_sum_of_products_with_what_is_guarded_needs_no_guard(emit: Any) -> None:
    """x - mean(x) is zero past the end of a row where its squares are summed, and so is its product with y there."""

    def moments(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        centered = x - x.mean(-1, keepdim=True)
        return centered.square().sum(-1), (centered * y).sum(-1)

    files = emit(moments, (torch.randn(6, 48), torch.randn(6, 48)), device="cuda")
    (kernel,) = (
        str(text) for name, text in files.items() if name.startswith("kernels/") and "tl.sum" in str(text)
    )
    assert kernel.count("tl.where(") == 1 and "tl.sum(centered * y, " in kernel
