"""Batch norm of one image, whose channels are one piece each: nothing is combined."""

from __future__ import annotations

import torch
from torch import nn

import longhand


def test_one_piece_is_not_combined_with_others(tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Hardswish()).train()
    x = torch.randn(1, 3, 10, 10)
    longhand.generate(net, (x,), out=tmp_path / "unit", device="cuda", arch="sm_90", train=True)
    text = "".join(path.read_text() for path in (tmp_path / "unit" / "kernels").glob("*.py"))
    assert "batch_norm" in text
    assert "apart" not in text
