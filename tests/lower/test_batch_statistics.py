"""Batch norm that trains: on CUDA the statistics are those of pieces, so many that they fill a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.lower.lowerings.batch_statistics import _count


@pytest.mark.parametrize(
    ("n_pixels", "most", "n_pieces"),
    [(65536, 8192, 8), (8192, 8192, 1), (49, 8192, 1), (9409, 8192, 97), (10007, 8192, 1), (576, 512, 2)],
)
def test_pieces_fit_a_program(n_pixels: int, most: int, n_pieces: int) -> None:
    assert _count(n_pixels, most) == n_pieces


def test_norm_and_what_follows_are_one_kernel_on_cuda_and_atens_on_the_cpu(tmp_path: Path) -> None:
    model = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()).train()
    x = torch.randn(2, 4, 8, 8)
    longhand.generate(model, (x,), out=tmp_path / "cuda", device="cuda", arch="sm_90", train=True)
    longhand.generate(model, (x,), out=tmp_path / "cpu", device="cpu", train=True)
    kernels = {path.stem for path in (tmp_path / "cuda" / "kernels").glob("*.py")}
    assert {"piece_statistics", "batch_statistics", "batch_norm_relu"} <= kernels
    assert "native_batch_norm" not in (tmp_path / "cuda" / "model.py").read_text()
    assert "native_batch_norm" in (tmp_path / "cpu" / "model.py").read_text()
