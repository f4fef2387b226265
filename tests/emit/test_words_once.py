"""A word stands for one thing in a formula: not for a tensor and a function, nor for a gradient inside and a result."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of


def titles(files: dict[str, str]) -> list[str]:
    texts = (
        str(text) for path, text in files.items() if path.startswith("kernels/") and "__init__" not in path
    )
    return [re.split(r"\n(?://)?\n", text)[0] for text in texts]


class PostNorm(nn.Module):
    """What the last layer norm made is one of the things that the next one adds up."""

    def __init__(self) -> None:
        super().__init__()
        self.LayerNorm, self.dense, self.other = nn.LayerNorm(32), nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layer_norm = self.LayerNorm(torch.sin(x))
        return self.other(layer_norm + self.dense(layer_norm))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_function_is_told_from_a_tensor_of_its_name(device: str) -> None:
    files = text_of((PostNorm().eval(), (torch.randn(3, 5, 32),), {}), device, train=False)
    said = [title for title in titles(files) if re.search(r"\blayer_norm\b(?!\()", title.partition(":")[2])]
    assert said and all(re.search(r"F\.layer_norm\(", title) for title in said), said


class Rebound(nn.Module):
    """The name of what is normalized is given to the result, which is rotated."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(32, 32)
        self.proj, self.weight = nn.Linear(32, 32), torch.rand(32)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        query_states = self.proj(x)
        rstd = torch.rsqrt(query_states.pow(2).mean(-1, keepdim=True) + 1e-6)
        query_states = self.weight * (query_states * rstd)
        first, second = query_states.chunk(2, dim=-1)
        q_embed = query_states * cos + torch.cat((-second, first), dim=-1) * sin
        return self.out(q_embed)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_gradient_inside_has_another_word_than_the_result(device: str) -> None:
    args = torch.randn(3, 5, 32), torch.rand(5, 32), torch.rand(5, 32)
    for title in titles(text_of((Rebound(), args, {}), device, train=True)):
        made = re.findall(r"(\w+) = ", title)
        assert len(made) == len({*made}), title


class Normalized(nn.Module):
    """Its eps and its momentum are one number by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv3d(3, 8, 3, bias=False), nn.Conv3d(8, 4, 1)
        self.bn = nn.BatchNorm3d(8, eps=1e-3, momentum=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.relu(self.bn(self.conv(x))))


@pytest.fixture(scope="module")
def normalized() -> str:
    files = text_of((Normalized(), (torch.randn(1, 3, 5, 5, 5),), {}), "cuda", train=True)
    return next(title for title in titles(files) if "running_var = " in title)


def test_a_momentum_is_no_eps_that_is_as_large(normalized: str) -> None:
    assert re.search(r"rstd = rsqrt\(.* \+ eps\)", normalized), normalized
    assert "running_var * (1.0 - momentum)" in normalized, normalized


def test_what_takes_the_mean_itself_is_no_batch_norm_of_the_rest(normalized: str) -> None:
    assert "batch_norm(conv" not in normalized and "* weight + bias" in normalized, normalized
