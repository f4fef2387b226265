"""The words for several axes on one side never hide the words of one of them."""

from __future__ import annotations

import torch

from longhand.emit.triton.functions import side_names
from longhand.emit.triton.scope import FileScope
from longhand.schedule.names.unit_names import AxisNames, KernelNames
from tests.emit.conftest import plan_unit


def causal_softmax(scores: torch.Tensor) -> torch.Tensor:
    row = torch.arange(scores.shape[1], device=scores.device)[:, None]
    col = torch.arange(scores.shape[2], device=scores.device)
    return torch.softmax(torch.where(col <= row, scores, float("-inf")), dim=-1)


def test_a_product_of_sizes_has_a_name_of_its_own() -> None:
    plan = plan_unit(causal_softmax, (torch.randn(6, 40, 40),), device="cuda")
    (kernel,) = plan.kernels.values()
    batch, row = (axis.name for axis in kernel.rows)
    words = {batch: AxisNames("group", "n_groups"), row: AxisNames("row", "n_rows")}
    names = KernelNames("kernel", "", (), {}, words, {}, {}, {})
    side = side_names(kernel, kernel.rows, names, FileScope(kernel, names), "row", "n_rows")
    assert side.size.text == "n_flat_rows" and side.index.text == "flat_row"
    assert [(name, value.text) for name, value in side.size_lines] == [("n_flat_rows", "n_groups * n_rows")]
    lines = dict(side.split_lines)
    assert lines["row"].text == "flat_row % n_rows" and lines["group"].text == "flat_row // n_rows"
    assert lines["row"].names == {"flat_row", "n_rows"}  # what a kernel that has this line must be given
