"""The words for several axes on one side never hide the words of one of them."""

from __future__ import annotations

from typing import Any

import torch


def causal_softmax(scores: torch.Tensor) -> torch.Tensor:
    row = torch.arange(scores.shape[1], device=scores.device)[:, None]
    col = torch.arange(scores.shape[2], device=scores.device)
    return torch.softmax(torch.where(col <= row, scores, float("-inf")), dim=-1)


def test_a_product_of_sizes_has_a_name_of_its_own(emit: Any) -> None:
    files = emit(causal_softmax, (torch.randn(6, 40, 40),), device="cuda")
    (kernel,) = (
        str(text) for path, text in files.items() if "tl.exp(" in str(text) and path.startswith("kernels/")
    )
    assert "n_flat_rows = n_groups * n_rows" in kernel
    assert "flat_row = tl.program_id(0)" in kernel
    assert "row = flat_row % n_rows" in kernel
    assert "n_rows = n_groups" not in kernel
