"""The printed C++ kernel of every shape of nest computes what the nest means."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from longhand.schedule.kernel import plan_kernel
from tests.emit.cpp_kernels import run_cpp
from tests.schedule.execution import fresh_memory, run_nest
from tests.schedule.nests import CPU
from tests.schedule.test_kernel_execution import CASES


@pytest.mark.parametrize("name", CASES)
def test_kernel_computes_its_nest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = CASES[name]
    nest = make.nest()
    plan, launch = plan_kernel(nest, make.buffers, CPU)
    memory = fresh_memory(nest.body, make.buffers)
    expected = run_nest(nest, memory)
    got = run_cpp(plan, launch, memory, tmp_path)
    for buffer, tensor in expected.items():
        tolerance = {torch.bfloat16: 1.6e-2, torch.float32: 2e-5}.get(tensor.dtype, 0)
        torch.testing.assert_close(got[buffer], tensor, rtol=tolerance, atol=tolerance, equal_nan=True)
