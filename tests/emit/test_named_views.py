"""Heads taken from one product: one line where all parts are alike, the user's own lines where they are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.loading import bound, load
from tests.same_gradients import assert_gradients_as_exact


class Heads(nn.Module):
    """Attention whose q, k and v come from one product, split in several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.qkv = nn.Linear(24, {"grouped": 40}.get(way, 72))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        qkv = self.qkv(x)
        if self.way == "grouped":
            q, k, v = qkv.split([24, 8, 8], dim=-1)
        else:
            q, k, v = qkv.split(dim, dim=-1)
        q = q.view(batch, seq, -1, 8).transpose(1, 2)
        if self.way == "other heads":
            k = k.view(batch, seq, 1, 24)[:, :, :, :8].expand(batch, seq, 3, 8).transpose(1, 2)
        else:
            k = k.view(batch, seq, -1, 8).transpose(1, 2)
        v = v.view(batch, seq, -1, 8).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, enable_gqa=self.way == "grouped")
        if self.way == "read twice":
            attended = attended + F.scaled_dot_product_attention(v, k, q)
        return attended


@pytest.mark.parametrize(
    ("way", "is_one_line"),
    [("equal", True), ("read twice", True), ("grouped", False), ("other heads", False)],
)
def test_equal_heads_are_one_line_and_right(
    unit_folder: Callable[..., Path], way: str, is_one_line: bool
) -> None:
    torch.manual_seed(0)
    model, x = Heads(way).eval(), torch.randn(2, 5, 24)
    folder = unit_folder(model, (x,))
    text = (folder / "model.py").read_text()
    assert (".unbind(2)" in text) == is_one_line
    assert (".split(" in text) != is_one_line
    unit = bound(load(folder), model)
    with torch.no_grad():
        torch.testing.assert_close(unit(x), model(x))


class Parts(nn.Module):
    """Query, key and value are the places of a dimension: all read, or all but one."""

    def __init__(self, n_parts: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(24, 24 * n_parts)
        self.n_parts = n_parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(x).unflatten(-1, (self.n_parts, 3, 8)).transpose(1, 3)
        q, k, v = parts.unbind(2)[:3]
        return F.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("n_parts", [3, 4])
def test_all_places_of_a_dimension_are_taken_at_once(unit_folder: Callable[..., Path], n_parts: int) -> None:
    torch.manual_seed(0)
    model, x = Parts(n_parts).eval(), torch.randn(2, 5, 24)
    folder = unit_folder(model, (x,))
    text = (folder / "model.py").read_text()
    assert ("q, k, v = " in text and ".unbind(2)" in text) == (n_parts == 3)
    unit = bound(load(folder), model)
    with torch.no_grad():
        torch.testing.assert_close(unit(x), model(x))


class ReadByThree(nn.Module):
    """A view that three library calls read; between two of them its name may go to another value."""

    def __init__(self, is_rebound: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.is_rebound = is_rebound

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = torch.relu(x)
        windows = hidden.view(2, 3, 2, 8).transpose(1, 2)
        q = self.q(windows)
        if self.is_rebound:
            other = torch.sigmoid(x).view(2, 3, 2, 8)
            windows, kept = other.transpose(1, 2), windows
            q = q + self.k(windows)
            windows = kept
        return q, self.k(windows), self.v(windows)


@pytest.mark.parametrize("is_rebound", [False, True])
def test_a_view_that_is_still_held_is_not_taken_again(
    unit_folder: Callable[..., Path], is_rebound: bool
) -> None:
    torch.manual_seed(0)
    model, x = ReadByThree(is_rebound).eval(), torch.randn(2, 6, 8)
    folder = unit_folder(model, (x,))
    text = (folder / "model.py").read_text()
    assert is_rebound or text.count(".transpose(1, 2)") == 1
    unit = bound(load(folder), model)
    with torch.no_grad():
        torch.testing.assert_close(unit(x), model(x))


class ReadTwice(nn.Module):
    """One view read by two library calls, the second of which is the last that needs what it is a view of."""

    def __init__(self) -> None:
        super().__init__()
        self.v = nn.Linear(24, 24)
        self.conv = nn.Conv2d(3, 3, (5, 1), padding=(2, 0), groups=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        v = self.v(x)
        v = v.view(batch, seq, 3, 8).transpose(1, 2)
        probabilities = torch.softmax(v.mean(-1, keepdim=True) + torch.zeros(seq), dim=-1)
        mixed = probabilities @ v
        return (mixed + self.conv(v)).permute(0, 2, 1, 3)


def test_a_view_of_a_view_is_not_taken_again(unit_folder: Callable[..., Path]) -> None:
    torch.manual_seed(0)
    model, x = ReadTwice().eval(), torch.randn(2, 5, 24)
    unit = bound(load(unit_folder(model, (x,))), model)
    with torch.no_grad():
        torch.testing.assert_close(unit(x), model(x))


class Joined(nn.Module):
    """Query, key and value taken from one dimension of what is reshaped for that."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, _ = x.shape
        qkv = self.qkv(x).reshape(batch, height * width, 3, 2, 8)
        q, k, v = torch.unbind(qkv, 2)
        return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))


def test_parts_of_what_is_reshaped_for_them(unit_folder: Callable[..., Path]) -> None:
    model, x = Joined().eval(), torch.randn(2, 3, 5, 16)
    folder = unit_folder(model, (x,))
    text = (folder / "model.py").read_text(encoding="utf-8")
    assert "q, k, v = " in text and ".unbind(2)" in text
    with torch.no_grad():
        torch.testing.assert_close(bound(load(folder), model)(x), model(x))


class Turned(nn.Module):
    """Its variable is the residual's, too, when what is normalized is only turned for a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(16), nn.Conv1d(16, 16, 3, padding=1)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        residual = hidden_states
        normed = self.norm(hidden_states)
        hidden_states = normed.transpose(1, 2)
        hidden_states = self.conv(hidden_states)
        return residual + hidden_states.transpose(1, 2)


def test_a_view_keeps_the_word_of_what_it_is_of_where_its_own_is_taken(
    unit_folder: Callable[..., Path],
) -> None:
    """It was `hidden_states_view = normed.transpose(1, 2)`."""
    model, x = Turned().eval(), torch.randn(2, 9, 16)
    folder = unit_folder(model, (x,))
    text = (folder / "model.py").read_text(encoding="utf-8")
    assert "normed = normed.transpose(1, 2)" in text and "_view = " not in text
    with torch.no_grad():
        torch.testing.assert_close(bound(load(folder), model)(x), model(x))


class Trained(nn.Module):
    """Attention from three products, whose gradients are read twice: for the weight, and for what it was made of."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.q, self.k, self.v = (nn.Linear(24, 24) for _ in range(3))
        self.proj = nn.Linear(24, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        normed = self.norm(x)
        q, k, v = self.q(normed), self.k(normed), self.v(normed)
        q = q.view(batch, seq, 3, 8).transpose(1, 2)
        k = k.view(batch, seq, 3, 8).transpose(1, 2)
        v = v.view(batch, seq, 3, 8).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v)
        return self.proj(attended.transpose(1, 2).reshape(batch, seq, dim))


def test_what_is_seen_twice_is_laid_out_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Trained().train(), torch.randn(2, 5, 24)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)
    assert_gradients_as_exact(model, tmp_path / "unit", x)
    text = (tmp_path / "unit" / "backward.py").read_text()
    print(text)
    for word in ("d_q", "d_k", "d_v"):
        assert len(re.findall(rf"\b{word}\.transpose\(1, 2\)", text)) == 1
