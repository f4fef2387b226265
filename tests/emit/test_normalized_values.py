"""What a norm that the user wrote out normalizes is called so: the gradient of its variable is that of the product."""

from __future__ import annotations

import functools
import re

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of


class Reassigned(nn.Module):
    """As one model of transformers has it: one variable for what is normalized, and then weighed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))

    def _norm(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output = self._norm(x.float())
        output = output * self.weight.float()
        return output.type_as(x)


class Returned(Reassigned):
    """As others have it: the product is returned, and the caller's variable is called as the norm's own."""

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + 1e-6)
        return self.weight * hidden_states


class Named(Reassigned):
    """A person who has a word for each."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        white = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return white * self.weight


class Block(nn.Module):
    def __init__(self, norm: type[nn.Module]) -> None:
        super().__init__()
        self.norm = norm()
        self.up, self.down = nn.Linear(64, 96, bias=False), nn.Linear(96, 64, bias=False)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        residual = hidden_states
        hidden_states = self.norm(hidden_states)
        hidden_states = self.down(torch.relu(self.up(hidden_states)))
        return residual + hidden_states


@functools.cache
def written(norm: type[nn.Module], device: str) -> dict[str, str]:
    model = nn.Sequential(*(Block(norm) for _ in range(4)), norm())
    return text_of((model.train(), (torch.randn(2, 8, 64),), {}), device, train=True)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("norm", [Reassigned, Returned])
def test_a_gradient_and_what_it_is_of_have_one_word(norm: type[nn.Module], device: str) -> None:
    """`output = x * rstd`, and beside it `d_output`, which was the gradient of `norm_output = output * weight`."""
    kernels = [text for path, text in written(norm, device).items() if "kernels/d_" in path]
    texts = [text for text in kernels if re.search(r"d_normalized = d_\w+ \* weight", text)]
    assert texts
    for text in texts:
        made = dict(re.findall(r"^(?://)? *(\w+) = (normalized \* weight|weight \* normalized)$", text, re.M))
        (given,) = {*re.findall(r"d_normalized = d_(\w+) \* weight", text)}
        assert not made or given in made, text
        assert not re.search(r"\b(?!normalized)\w+ = \w+ \* rstd$", text, re.M), text
    assert any("normalized * weight" in text or "weight * normalized" in text for text in texts)


def test_backward_py_says_what_is_normalized() -> None:
    text = written(Reassigned, "cpu")["backward.py"]
    assert re.search(r"kernels\.d_\w+_weight\(\s*d_output, normalized,", text)


def test_a_word_of_its_own_stays() -> None:
    assert "white" in written(Named, "cpu")["backward.py"]
