"""What kernels are called: after a small module's one operation; not after pads of no width, nor after paths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.schedule.names.words import snake_case


class LayerScale(nn.Module):
    """One factor for each channel."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gamma


class Scaled(nn.Module):
    """A product with the factors of channels, between two products of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.ls1, self.fc2 = nn.Linear(16, 16), LayerScale(16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.ls1(self.fc1(x)))


class Padded(nn.Module):
    """A pad whose width a function computes: nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2, self.width = nn.Linear(16, 16), nn.Linear(16 + width, 16), width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.pad(F.elu(self.fc1(x)), (self.width, 0)))


class Normed(nn.Module):
    """Residual layers with a norm before."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_one, self.norm_two = nn.LayerNorm(16), nn.LayerNorm(16)
        self.q_proj, self.k_proj, self.fc = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm_one(x)
        x = x + self.q_proj(normed) * self.k_proj(normed)
        return x + self.fc(self.norm_two(x))


class Activated(nn.Module):
    """A norm and an activation between two layers, whose second one wants their values again backwards."""

    def __init__(self, *, is_linear: bool) -> None:
        super().__init__()
        layer = nn.Linear if is_linear else lambda n, m: nn.Conv1d(n, m, 3)
        self.first, self.norm, self.second, self.is_linear = (
            layer(16, 24),
            nn.LayerNorm(24),
            layer(24, 8),
            is_linear,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_linear:
            return self.second(F.gelu(self.norm(self.first(x))))
        h = self.first(x[:, :, None].expand(-1, -1, 7)).transpose(1, 2)
        return self.second(F.gelu(self.norm(h)).transpose(1, 2))


def _kernels(model: nn.Module, out: Path, *, train: bool = False) -> list[str]:
    longhand.generate(model.train(train), (torch.randn(6, 16),), out=out, train=train)
    return sorted(path.stem for path in (out / "kernels").glob("*.cpp"))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("ConvNeXtBlock", "conv_next_block"),
        ("ViTSelfAttention", "vit_self_attention"),
        ("TopKRouter", "top_k_router"),
    ],
)
def test_short_pieces_beside_each_other_are_one_word(name: str, word: str) -> None:
    assert snake_case(name) == word


def test_a_product_that_is_a_module_is_called_after_it(tmp_path: Path) -> None:
    assert _kernels(Scaled(), tmp_path / "unit") == ["layer_scale"]


@pytest.mark.parametrize(("width", "kernel"), [(0, "elu"), (2, "elu_pad")])
def test_a_pad_of_no_width_is_no_pad(width: int, kernel: str, tmp_path: Path) -> None:
    assert _kernels(Padded(width), tmp_path / "unit") == [kernel]


def test_the_derivative_of_a_norm_is_called_that_whatever_it_computes_again(tmp_path: Path) -> None:
    kernels = _kernels(Normed(), tmp_path / "unit", train=True)
    norms = [kernel for kernel in kernels if "norm" in kernel and kernel.startswith("d_")]
    assert norms and not any("_and_d_" in kernel for kernel in kernels)
    assert not any(layer in kernel for kernel in norms for layer in ("norm_one", "norm_two", "q_proj"))


@pytest.mark.parametrize("is_linear", [False, True])
def test_only_a_kernel_that_stores_a_gradient_is_called_a_derivative(is_linear: bool, tmp_path: Path) -> None:
    _kernels(Activated(is_linear=is_linear), tmp_path / "unit", train=True)
    again = {"normalized", "activated"}  # of the forward pass, stored for the gradients of weights
    results = {
        path.stem: set(re.findall(r"^ +float \*(\w+),?", path.read_text(), re.M))
        for path in (tmp_path / "unit" / "kernels").glob("*.cpp")
    }
    of_both = [kernel for kernel, stored in results.items() if again & stored]
    assert of_both
    for kernel in of_both:
        assert kernel.startswith("d_") == any(name.startswith("d_") for name in results[kernel]), kernel


def gaussian_kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The measure of likeness that is called a kernel in statistics."""
    distance = x - y
    square = distance * distance
    return torch.exp(-0.5 * square)


class Likeness(nn.Module):
    """A weighted kernel, in statistics' sense."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(gaussian_kernel(x, x.flip(0)))


def test_no_kernel_is_called_a_kernel(tmp_path: Path) -> None:
    """The device function of a file has that at its end: ``gaussian_kernel_kernel`` would be two of them."""
    assert _kernels(Likeness(), tmp_path / "unit") == ["gaussian"]


class GroupNormed(nn.Module):
    """A group norm and its activation, behind a sum, and joined with another image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(32, 8, 3, padding=1)
        self.norm, self.joined_norm = nn.GroupNorm(4, 16), nn.GroupNorm(4, 32)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        hidden = self.conv(x) + skip
        normed = F.silu(self.norm(hidden))
        return self.out(F.silu(self.joined_norm(torch.cat([normed, skip], dim=1))))


def test_a_group_norm_that_is_written_out_for_its_derivative_is_called_one(tmp_path: Path) -> None:
    """Its seven operations were only listed, so that the kernel had a name of the module around it."""
    given = torch.randn(2, 8, 6, 6), torch.randn(2, 16, 6, 6)
    longhand.generate(
        GroupNormed().train(),
        given,
        out=tmp_path / "unit",
        train=True,
        device="cuda",
        arch="sm_90",
        run=False,
    )
    kernels = {path.stem for path in (tmp_path / "unit" / "kernels").glob("*.py")}
    forward = {kernel for kernel in kernels if "group_norm" in kernel and not kernel.startswith("d_")}
    assert any(kernel.startswith("add_and_group_norm") for kernel in forward), kernels
    assert any("cat" in kernel for kernel in forward), kernels
    for kernel in forward:
        text = (tmp_path / "unit" / "kernels" / f"{kernel}.py").read_text()
        assert "weight_ptr,  # float32 (n_groups, n_channels)" in text and "group = row % n_groups" in text
    assert not any("group_normed" in kernel or "var_mean" in kernel for kernel in kernels), kernels


class TokenEmbeddings(nn.Module):
    """As in vision transformers: what the module is called after is its own variable, too."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 17, 8))
        self.projection, self.dropout = nn.Conv2d(3, 8, 4, stride=4), nn.Dropout(0.1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        embeddings = self.projection(images).flatten(2).transpose(1, 2)
        embeddings = torch.cat((self.token.expand(len(images), -1, -1), embeddings), dim=1)
        embeddings = embeddings + self.position
        return self.dropout(embeddings)


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings, self.out = TokenEmbeddings(), nn.Linear(8, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.out(self.embeddings(images))


def test_a_word_that_a_module_ends_in_is_not_said_twice_and_a_bias_is_added(tmp_path: Path) -> None:
    out = tmp_path / "unit"
    longhand.generate(
        Embedded().eval(), (torch.randn(2, 3, 16, 16),), out=out, device="cuda", arch="sm_90", run=False
    )
    kernels = {path.stem for path in (out / "kernels").glob("[a-z]*.py")}
    assert kernels == {"add_bias", "token_embeddings"}
