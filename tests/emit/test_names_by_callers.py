"""What a function calls the same for all of its callers goes by what they call its result: cos and sin, not freq_hw."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Angles(nn.Module):
    """Tables for two axes, put together by one function."""

    def __init__(self) -> None:
        super().__init__()
        self.inv_freq = nn.Buffer(1.0 / 10 ** torch.linspace(0, 1, 4))

    def spread(self, freq: torch.Tensor) -> torch.Tensor:
        freq_h, freq_w = freq[:, 0], freq[:, 1]
        freq_hw = torch.cat([freq_h, freq_w], dim=-1)[None, ...]
        return freq_hw.repeat_interleave(2, dim=-1)

    def forward(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        freqs = places[..., None].float() * self.inv_freq
        cos = freqs.cos()
        sin = freqs.sin()
        cos = self.spread(cos)
        sin = self.spread(sin)
        return cos, sin


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.angles = Angles()

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        cos, sin = self.angles(places)
        x1, x2 = x[..., ::2], x[..., 1::2]
        turned = torch.stack((-x2, x1), dim=-1).flatten(-2)
        return (x * cos) + (turned * sin)


def test_two_calls_of_one_function_are_called_as_their_results(emit: Any) -> None:
    given = torch.randn(3, 10, 16), torch.arange(20).reshape(10, 2)
    files = emit(Turned().eval(), given, device="cuda")
    model = str(files["model.py"])
    assert "kernels.make_cos_and_sin(" in model and "freq_hw," not in model and "angles_" not in model
