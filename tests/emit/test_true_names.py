"""Names say what is computed, not which operation of the graph holds it, nor that it stands before a library's call."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.readability.units import text_of


class ConvNorm(nn.Sequential):
    def __init__(self, n_in: int, n_out: int, kernel: int, groups: int = 1) -> None:
        super().__init__()
        self.add_module("r", nn.Conv2d(n_in, n_out, kernel, padding=kernel // 2, groups=groups, bias=False))
        self.add_module("bn", nn.BatchNorm2d(n_out))


class Residual(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.module(x)


class Net(nn.Module):
    """A convolution called ``r``: its letter is in many words, and none of them is looked up in a table."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 16, 3), nn.GELU(), ConvNorm(16, 32, 3))
        mixers = (nn.Sequential(ConvNorm(32, 32, 7, 32), ConvNorm(32, 32, 1), nn.GELU()) for _ in range(3))
        self.blocks = nn.Sequential(*map(Residual, mixers))
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Attention(nn.Module):
    """The library's attention is given what a kernel makes."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Conv2d(8, 24, 1), nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(x).chunk(3, 1)
        q, k, v = (torch.sigmoid(one).flatten(2).transpose(1, 2).unsqueeze(1) for one in parts)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.squeeze(1).transpose(1, 2).reshape(x.shape))


@pytest.fixture(scope="module")
def net() -> dict[str, str]:
    torch.manual_seed(0)
    return text_of((Net().train(), (torch.randn(2, 3, 16, 16),), {}), "cuda", train=True)


def test_a_norms_result_is_normed(net: dict[str, str]) -> None:
    own = {path: text for path, text in net.items() if path.startswith(("model", "backward", "kernels"))}
    assert not [path for path, text in own.items() if "getitem" in text]
    assert "normed" in net["model.py"]


def test_only_tables_are_looked_up_in(net: dict[str, str]) -> None:
    assert "lookup" not in net["backward.py"]


def test_what_only_makes_statistics_says_so(net: dict[str, str]) -> None:
    assert "def second_" not in net["model.py"] and "def conv_norm_statistics(" in net["model.py"]


def test_a_kernel_before_attention_is_none() -> None:
    torch.manual_seed(0)
    files = text_of((Attention().train(), (torch.randn(2, 8, 4, 4),), {}), "cuda", train=True)
    kernels = [path.removeprefix("kernels/") for path in files if path.startswith("kernels/")]
    assert "sigmoid.py" in kernels and not [name for name in kernels if "attention" in name]


def test_what_is_made_without_a_gradient_is_none() -> None:
    """A layout that queries are brought in for the derivative, and gradients of them: no ``d_x`` of an ``x``."""
    torch.manual_seed(0)
    files = text_of((Attention().train(), (torch.randn(2, 8, 4, 4),), {}), "cuda", train=True)
    titles = [text.partition("\n")[0] for path, text in files.items() if path.startswith("kernels/")]
    assert not [title for title in titles if title.startswith('"""transpose: d_x')]


class Stem(nn.Module):
    """A convolution whose result has the word of what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_in, self.out = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        sample = self.conv_in(sample)
        return self.out(torch.nn.functional.silu(self.norm(sample))) + sample


def test_what_a_bias_is_added_to_is_biased() -> None:
    """It was ``conv_in_plus_sample``: the user's word for the result was taken for that of the bias."""
    files = text_of((Stem().train(), (torch.randn(2, 3, 8, 8),), {}), "cuda", train=True)
    assert "conv_in_plus_" not in files["model.py"] and "biased_conv_in" in files["model.py"]
