"""What a mean's derivative divides by its count, and a sum over all its places multiplies again, is neither."""

from __future__ import annotations

from typing import Any

import torch


def bias_behind_a_mean(d_mean: torch.Tensor) -> torch.Tensor:
    """The derivative of a bias that was added at nine places before their mean was taken."""
    return (d_mean[:, :, None] / 9).expand(-1, -1, 9).sum(dim=(0, 2))


def of_seven(d_mean: torch.Tensor) -> torch.Tensor:
    return (d_mean[:, :, None] / 9).expand(-1, -1, 7).sum(dim=(0, 2))


def test_it_is_the_sum_of_the_whole(emit: Any) -> None:
    files = emit(bias_behind_a_mean, (torch.randn(5, 12),), device="cuda")
    (kernel,) = (
        str(text) for path, text in files.items() if path.startswith("kernels/") and "__" not in path
    )
    body = kernel.split('"""', 4)[-1].split("\ndef ")[0]
    assert " / " not in body and "scale" not in kernel
    assert "sums, n_rows=n_rows, n_cols=n_cols)" in str(files["model.py"])


def test_another_number_stays(emit: Any) -> None:
    files = emit(of_seven, (torch.randn(5, 12),), device="cuda")
    (kernel,) = (
        str(text) for path, text in files.items() if path.startswith("kernels/") and "__" not in path
    )
    assert " / " in kernel
