"""What stands on the way of a derivative is called what it is, and not after its operation."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.readability.units import text_of


class Attention(nn.Module):
    """Heads that share their keys, and queries that are rotated."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(32, 32, bias=False), nn.Linear(32, 16, bias=False)
        self.n_heads, self.head_dim = 4, 8

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        q = self.q_proj(x).view(batch, seq, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, seq, 2, 8).transpose(1, 2)
        first, second = q[..., :4], q[..., 4:]
        q_embed = q * cos + torch.cat((-second, first), dim=-1) * sin
        key = k[:, :, None].expand(batch, 2, 2, seq, 8).reshape(batch, 4, seq, 8)
        weights = torch.softmax(q_embed @ key.transpose(2, 3), dim=-1)
        return F.silu(weights) * weights


class PairRotation(nn.Module):
    """Neighbours are rotated, as Cohere has it."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(32, 32, bias=False)

    def rotate_half(self, x: torch.Tensor) -> torch.Tensor:
        x1, x2 = x[..., ::2], x[..., 1::2]
        return torch.stack([-x2, x1], dim=-1).flatten(-2)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        q = self.q_proj(x).view(batch, seq, 4, 8).transpose(1, 2)
        return q * cos + self.rotate_half(q) * sin


@pytest.fixture(scope="module")
def attention() -> dict[str, str]:
    torch.manual_seed(0)
    args = (torch.randn(2, 6, 32), torch.randn(6, 8), torch.randn(6, 8))
    return text_of((Attention().train(), args, {}), "cuda", train=True)


def body_of(text: str) -> str:
    """The statements of a Triton kernel's file, without its reference."""
    return text[text.index("@fast_launch") : text.index("def reference")]


def test_no_kernel_has_values_called_after_their_operation(attention: dict[str, str]) -> None:
    for path, text in attention.items():
        if path.startswith("kernels/") and "@fast_launch" in text:
            assert not re.search(r"^    (product|total|ratio|quotient) = ", body_of(text), re.M), text


def test_halves_that_are_read_for_the_other_say_on_which_side_they_lie(attention: dict[str, str]) -> None:
    (text,) = (text for path, text in attention.items() if path.startswith("kernels/d_rotary"))
    body = body_of(text)
    assert re.search(r"(\w+)_ahead = tl.load\(\s*\w+_ptr \+ .*\+ half", body), body
    assert re.search(r"(\w+)_behind = tl.load\(\s*\w+_ptr \+ .*- half", body), body
    assert not re.search(r"\b(other|further)_", body), body


def test_loads_come_before_what_is_computed_where_places_alone_decide(attention: dict[str, str]) -> None:
    (text,) = (text for path, text in attention.items() if path.startswith("kernels/d_rotary"))
    body = body_of(text)
    assert body.rindex("tl.load(") < body.index(" * sin"), body


def test_heads_and_positions_have_their_words_in_kernels(attention: dict[str, str]) -> None:
    for path, text in attention.items():
        if path.startswith("kernels/") and "rotary" in path:
            assert not re.search(r"n_(stacks|groups|outers|lanes)", text), text


def test_sums_say_what_they_are_kept_in(attention: dict[str, str]) -> None:
    for path, text in attention.items():
        if path.startswith("kernels/") and "tl.sum(" in text:
            assert "sums in float32" in text, text


def test_the_gradient_of_a_rotation_of_pairs_is_called_one() -> None:
    torch.manual_seed(0)
    args = (torch.randn(2, 6, 32), torch.randn(6, 8), torch.randn(6, 8))
    files = text_of((PairRotation().train(), args, {}), "cuda", train=True)
    names = [
        path.removeprefix("kernels/") for path in files if path.startswith("kernels/") and "rotary" in path
    ]
    assert any(name.startswith("d_rotary") for name in names), names
