"""Rows added up at positions that are data, on CUDA: by index_add_, or by ATen's sort where many meet at one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import longhand
from longhand.options import Device


def added(x: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return (x * 2).index_put((index,), torch.tanh(rows), accumulate=True) + 1


@pytest.mark.parametrize(("n_rows", "n_added", "is_ours"), [(5, 40, True), (2, 512, True), (2, 513, False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_where_many_meet_at_one_aten_sorts(
    n_rows: int, n_added: int, is_ours: bool, dtype: torch.dtype, tmp_path: Path
) -> None:
    generator = torch.Generator().manual_seed(n_added)
    x = torch.randn(n_rows, 3, generator=generator).to(dtype)
    index = torch.randint(-n_rows, n_rows, (n_added,), generator=generator)
    rows = torch.randn(n_added, 3, generator=generator).to(dtype)
    # The trial runs it in Triton's interpreter, against eager.
    longhand.generate(added, (x, index, rows), out=tmp_path / "unit", device=Device.CUDA.value, arch="sm_90")
    text = (tmp_path / "unit/model.py").read_text()
    assert bool(re.search(r"^ +\w+\.index_add_\(", text, re.MULTILINE)) is is_ours
    assert bool(re.search(r"^ +\w+ = .*\.index_put\(", text, re.MULTILINE)) is not is_ours
