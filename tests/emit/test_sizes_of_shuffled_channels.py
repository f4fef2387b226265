"""An axis that steps as far as the batch does, where a join's second piece begins before its tensor, is no batch."""

import re
from pathlib import Path

import torch
from torch import nn

import longhand


def shuffled(x: torch.Tensor, groups: int = 2) -> torch.Tensor:
    """Each group's first channel, then each one's second."""
    batch, channels, height, width = x.shape
    parts = x.view(batch, groups, channels // groups, height, width)
    return parts.transpose(1, 2).reshape(batch, channels, height, width)


class Shuffle(nn.Module):
    """As ShuffleNet's block: half of the channels pass, the others are convolved, and both are shuffled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        passed, given = x.chunk(2, dim=1)
        return shuffled(torch.cat((passed, torch.relu(self.norm(self.conv(given)))), dim=1))


def test_groups_are_not_the_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Shuffle(12), Shuffle(12), Shuffle(12)).train(), torch.randn(2, 24, 8, 8)
    out = tmp_path / "unit"
    longhand.generate(model, (x,), out=out, device="cuda", arch="sm_90", train=True, run=False)
    forward = (out / "model.py").read_text()
    joins = re.findall(r"kernels\.batch_norm_cat\w*\((.*?)\n {8}\)", forward, re.DOTALL)
    assert joins and all("n_rows=2," in call for call in joins), forward
    assert "GROUPS * batch" not in forward and "// batch" not in forward
