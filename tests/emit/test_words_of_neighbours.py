"""Words of what a function of layers is given from outside: all differ, and none is a function that it calls."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import longhand
from longhand.schedule.names.layer_names import words_of_one_before
from longhand.schedule.names.words import Scope


def test_weights_of_the_layer_before_have_words_of_their_own() -> None:
    scope = Scope(frozenset())
    paths = ["lab.scale", "act.lab.scale", "pointwise.lab.scale", "lab_scale", "scale"]
    words = [scope.pick(words_of_one_before(path)) for path in paths]
    assert words[:2] == ["previous_lab_scale", "previous_act_lab_scale"]
    assert len(set(words)) == 5


class DoubleConv2d(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(128, 128, 3, padding=1) for _ in range(2))
        self.norm = nn.GroupNorm(4, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.norm(x))
        return self.second(F.gelu(self.first(x)))


class Convolved(nn.Module):
    """Each is an attribute of its own: the function for all calls its module by the end of their class's name."""

    def __init__(self) -> None:
        super().__init__()
        self.begin, self.middle, self.late, self.end = (DoubleConv2d() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.middle(self.begin(x)))
        return self.end(self.late(x).relu())


def test_no_module_is_called_like_a_function_of_the_runtime(tmp_path: Path) -> None:
    model, x = Convolved().eval(), torch.randn(2, 128, 8, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cuda", arch="sm_90", run=False)
    text = (tmp_path / "unit" / "model.py").read_text()
    assert " conv2d(" in text and "def double_conv2d(" in text and "(conv2d," not in text
