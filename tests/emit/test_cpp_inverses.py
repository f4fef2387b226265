"""A softmax multiplies by the inverse of its sum where that is safe, and divides elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from longhand.emit.cpp.kernel import print_cpp_kernel
from longhand.schedule.kernels.kernel import plan_kernel
from tests.emit.cpp_kernels import plain_names, run_cpp
from tests.schedule import nests


def _text(make: nests.NestMaker) -> str:
    plan, _ = plan_kernel(make.nest(), make.buffers, nests.CPU)
    return print_cpp_kernel(plan, plain_names(plan, "kernel"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_softmax_multiplies(dtype: torch.dtype) -> None:
    text = _text(nests.softmax_with_bias(5, 33, dtype))
    one = "1.0" if dtype is torch.float32 else "1.0f"
    assert f"const float inverse = {one} / " in text and "* inverse" in text


def test_a_sum_that_may_be_tiny_divides() -> None:
    """exp(x) / sum(exp(x)): the inverse of a denormal sum is infinite."""
    text = _text(nests.exp_normalize(5, 33))
    assert "inverse" not in text and " / " in text


def test_special_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    n_rows, n_cols = 7, 37
    make = nests.softmax_with_bias(n_rows, n_cols, torch.float32)
    plan, launch = plan_kernel(make.nest(), make.buffers, nests.CPU)
    x = torch.randn(n_rows, n_cols) * 30
    x[0, 3], x[1, 36], x[2, 0] = torch.nan, torch.inf, -torch.inf
    x[3], x[4], x[5] = -torch.inf, 1e30, -1e-42
    memory = {"scores": x.flatten(), "bias": torch.zeros(n_cols), "weights": torch.zeros(n_rows * n_cols)}
    got = run_cpp(plan, launch, memory, tmp_path)["weights"].view(n_rows, n_cols)
    expected = torch.softmax(x.double() * 0.125, -1).float()
    torch.testing.assert_close(got, expected, rtol=3e-6, atol=1e-9, equal_nan=True)
