"""A kernel that several call has the words that all of them have; where they have none, what it does says it."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.readability.units import text_of


class TwoNorms(nn.Module):
    """Two batch norms of other names, each behind a ReLU where one goes backward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(of, 4, 3, padding=1, bias=False) for of in (3, 4))
        self.early, self.late = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.early(self.first(x)))
        return F.relu(self.late(self.second(hidden)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(16), nn.LayerNorm(16)
        self.mix, self.up = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mix(self.before(x))
        return x + self.up(self.between(x))


def parameters(text: str) -> list[str]:
    """What the host function of a Triton kernel takes."""
    return re.findall(r"\w+", re.findall(r"^def \w+\(([^)]*)\):\n    \"\"\"(?:Fill|Update)", text, re.M)[0])


@pytest.fixture(scope="module")
def norms() -> dict[str, str]:
    torch.manual_seed(0)
    return text_of((TwoNorms().train(), (torch.randn(2, 3, 6, 6),), {}), "cuda", train=True)


def test_statistics_are_called_that_whose_they_are(norms: dict[str, str]) -> None:
    found = parameters(norms["kernels/d_batch_norm_relu.py"])
    assert {"mean", "rstd", "weight", "d_weight", "d_bias"} <= {*found}
    assert not {"y", "z", "x_in"} & {*found}


def test_what_comes_with_its_gradient_goes_by_that(norms: dict[str, str]) -> None:
    """The gradient that is read is that of ``out``, which is computed again, the one that is written that of ``x``."""
    text = norms["kernels/d_batch_norm_relu.py"]
    assert {"d_out", "x", "d_x"} <= {*parameters(text)} and "out" not in parameters(text)
    assert "<= 0.0, 0.0, d_out)" in text and "(x - mean) * rstd" in text


def test_pieces_are_not_called_after_what_is_made_by_means_of_them(norms: dict[str, str]) -> None:
    texts = [text for path, text in norms.items() if path.endswith("piece_statistics.py")]
    assert texts and all("piece_means" in text and "normalized_piece" not in text for text in texts)


def test_of_several_results_each_is_what_it_is_made_of() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.LayerNorm(16))
    texts = text_of((model.eval(), (torch.randn(2, 5, 16),), {}), "cuda", train=False)
    found = parameters(texts["kernels/add_and_layer_norm.py"])
    assert {"residual", "normed"} <= {*found} and not {"out", "second_out"} & {*found}
