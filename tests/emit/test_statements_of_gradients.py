"""What two gradients are computed from, each kernel computes; the second one is not for the first one's statement."""

from pathlib import Path

import torch
from torch import nn

import longhand
from examples.resnet_block import ResNetBlock


def test_a_norm_beside_the_shortcut_is_not_the_shortcuts(tmp_path: Path) -> None:
    model: nn.Module = ResNetBlock(8, 16, stride=2).train()
    given = (torch.randn(2, 8, 12, 12),)
    longhand.generate(model, given, out=tmp_path / "unit", device="cpu", train=True, run=False)
    paragraphs = (tmp_path / "unit" / "backward.py").read_text().split("\n\n")
    (of_bn2,) = [one for one in paragraphs if "d_bn2_weight = " in one]
    (of_shortcut,) = [one for one in paragraphs if "d_shortcut_1_weight = " in one]
    assert "out = self.bn2(self.conv2(out))" in of_bn2 and "shortcut[1]" not in of_bn2
    assert "# shortcut[1]: BatchNorm2d" in of_shortcut
