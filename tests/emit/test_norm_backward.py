"""A norm's whole backward pass is one kernel for the GPU: right at odd sizes, and the same in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(("norm", "dtype"), [("layer_norm", "bfloat16"), ("rms_norm", "float32")])
def test_gradients_of_a_norm_from_one_reading(norm: str, dtype: str, tmp_path: Path) -> None:
    environment = dict(os.environ, TRITON_INTERPRET="1", PYTHONPATH=str(HERE.parent.parent))
    command = [sys.executable, str(HERE / "norm_backward_worker.py"), str(tmp_path), norm, dtype]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert any(f"d_add_{norm}" in kernel for kernel in done.stdout.split()), done.stdout
