"""Sizes, strides and classes in model.py go by words, and equal math of other sizes is one kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.emit.layers.class_names import free_name
from tests.same_gradients import assert_same_gradients


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up = nn.Linear(24, 96, bias=False)
        self.down = nn.Linear(48, 24, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


def test_what_a_gate_lets_through_is_gated_and_its_sizes_have_words(emit: Any) -> None:
    text = str(emit(Gated().eval(), (torch.randn(3, 5, 24),))["model.py"])
    (call,) = re.findall(r"kernels\.swiglu\w*\([^)]*(?:\([^)]*\)[^)]*)*\)", text)
    assert "gated" in call and "product" not in text, text
    assert not re.search(r"=\d{2}\b", call), call


class Images(nn.Module):
    """Two group norms over images of other sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(4, 16), nn.GroupNorm(4, 32)
        self.conv = nn.Conv2d(16, 32, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.conv(self.first(x)))


def test_a_derivative_is_tied_to_no_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Images(), torch.randn(2, 16, 8, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", train=True)
    kernels = sorted(path.stem for path in (tmp_path / "unit" / "kernels").glob("d_*group_norm*.cpp"))
    texts = "\n".join((tmp_path / "unit" / "kernels" / f"{name}.cpp").read_text() for name in kernels)
    assert "n_averaged" in texts and not re.search(r"/ \d{2,}\.0f", texts), texts
    assert_same_gradients(model, tmp_path / "unit", x)


def test_a_second_class_of_layers_goes_by_the_part_of_the_model_that_it_is_of() -> None:
    taken = {"Block": "stages.0.blocks"}
    assert free_name("Block", {}, "stages.0.blocks", is_in_turn=False) == "Block"
    assert free_name("Block", taken, "stages.1.blocks", is_in_turn=False) == "Stage1Block"
    assert free_name("Block", taken, "decoder.layers", is_in_turn=False) == "DecoderBlock"
    assert free_name("Block", {"Block": "layers"}, "layers", is_in_turn=True) == "OtherBlock"
    # Of another list it is no other kind: what tells the lists apart says whose it is.
    taken = {"Block": "vision_model.encoder.layers"}
    assert free_name("Block", taken, "text_model.encoder.layers", is_in_turn=True) == "TextModelBlock"
