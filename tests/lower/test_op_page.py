"""docs/ops.md says what the tables of capture and lowering say, and what a captured call shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import longhand
from benchmarks.op_table import Fate, core_ops, fate, page

aten = torch.ops.aten
PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_is_current():
    version = torch.__version__.partition("+")[0]
    if f"PyTorch {version}," in PAGE.read_text():
        assert PAGE.read_text() == page()
    else:  # another torch may tag other ops
        assert all(
            f"`{str(op).split('.')[1]}`" in PAGE.read_text() for op in core_ops() if fate(op) is Fate.KERNEL
        )


@pytest.mark.parametrize(
    ("function", "op", "kind"),
    [
        (
            lambda x: aten.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)[0],
            aten.native_group_norm.default,
            Fate.KERNEL,
        ),
        (lambda x: aten.gelu(x) + 1, aten.gelu.default, Fate.KERNEL),
        (lambda x: aten.sum.dim_IntList(x, [1]), aten.sum.dim_IntList, Fate.KERNEL),
        (lambda x: aten.permute(x, [2, 0, 1]) * 2, aten.permute.default, Fate.VIEW),
        (lambda x: aten.cumsum(x, 0), aten.cumsum.default, Fate.LIBRARY),
        (lambda x: aten.topk(x, 2)[0], aten.topk.default, Fate.LIBRARY),
    ],
)
def test_a_call_shows_it(function, op, kind, tmp_path):
    assert fate(op) is kind
    with torch.no_grad():
        summary = longhand.generate(function, (torch.randn(2, 4, 3),), out=tmp_path / "unit")
    assert bool(summary.library_bytes) == (kind is Fate.LIBRARY)
