"""A dimension that counts parts has their word, and no other dimension's that is as long by chance."""

from __future__ import annotations

import functools
import re

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of
from longhand.capture.graph import Provenance
from longhand.schedule.names.dimensions.parts import word_of_stack
from longhand.schedule.names.dimensions.stated_sizes import words_of_reshape


class Weights(nn.Module):
    """How much each of several paths counts, by channel."""

    def __init__(self, channels: int, n_paths: int) -> None:
        super().__init__()
        self.num_paths = n_paths
        self.select = nn.Conv2d(channels, channels * n_paths, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.select(x.sum(1).mean((2, 3), keepdim=True))
        B, C, H, W = x.shape
        x = x.view(B, self.num_paths, C // self.num_paths, H, W)
        return torch.softmax(x, dim=1)


class Paths(nn.Module):
    """As many paths as there are images in its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.paths = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            for _ in range(2)
        )
        self.weigh = Weights(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x_paths = [path(x) for path in self.paths]
        x = torch.stack(x_paths, dim=1)
        weights = self.weigh(x)
        return torch.sum(x * weights, dim=1)


class Packed(nn.Module):
    """Queries, keys and values of a head beside each other."""

    def __init__(self, is_told: bool) -> None:
        super().__init__()
        self.is_told = is_told
        self.n_heads, self.head_dim = 4, 16
        self.qkv = nn.Linear(64, 192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        if self.is_told:
            qkv = torch.tanh(self.qkv(x)).view(batch, seq, self.n_heads, 3 * self.head_dim)
        else:
            qkv = torch.tanh(self.qkv(x)).view(batch, seq, self.n_heads, -1)
        q, k, v = (part.transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


class Selected(nn.Module):
    """Three tensors in one, each of which goes its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        qkv = self.qkv(x).reshape(batch, seq, 3, 4, 16).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


@functools.cache
def written(kind: str, device: str, train: bool = False) -> str:
    """All the text of a unit."""
    model, shape = {
        "paths": (Paths(), (2, 8, 6, 6)),
        "told": (Packed(True), (2, 19, 64)),
        "left": (Packed(False), (2, 19, 64)),
        "selected": (Selected(), (2, 19, 64)),
    }[kind]
    files = text_of((model.train(train), (torch.randn(shape),), {}), device, train=train)
    shown = {
        path: text for path, text in files.items() if re.match(r"(model|backward|kernels/.*)\.\w+$", path)
    }
    return "\n".join(shown.values())


@pytest.mark.parametrize(("device", "train"), [("cpu", False), ("cuda", True)])
def test_as_many_paths_as_images_are_no_batch(device: str, train: bool) -> None:
    """The paths were called `batch`, so that the images were an `X_BATCH` and their loop a `slab`."""
    text = written("paths", device, train)
    assert "n_paths" in text and "for path in" in text.replace("(long path", "for path in")
    assert not re.search(r"\w+_BATCH\b|\w+_batch\b = |\bslab\b|lane_index", text)


@pytest.mark.parametrize("kind", ["told", "left"])
def test_what_holds_three_heads_is_no_head_dim(kind: str) -> None:
    text = written(kind, "cuda")
    assert not re.search(r"head_dim = 48|HEAD_DIM = 48|head_dim // 3", text)
    assert "PACKED_DIM = 48" in text


def test_halves_of_a_head_are_of_a_head() -> None:
    """A head that is taken apart into two is one that is rotated."""
    said = Provenance("q = self.q(x).view(batch, seq, n_heads, -1)")
    assert words_of_reshape(said, (2, 19, 4, 16))[-1] == "head_dim"
    said = Provenance("q = self.q(x).view(batch, seq, n_heads, 3 * self.head_dim)")
    assert words_of_reshape(said, (2, 19, 4, 48))[-1] == "packed_dim"


def test_parts_that_are_selected_are_parts() -> None:
    """The gradient's kernel walked `slab`s; model.py keeps the number that the user wrote."""
    text = written("selected", "cpu", train=True)
    assert "n_parts" in text and "slab" not in text
    assert ".reshape(batch, seq, 3, " in text


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("x = torch.stack(x_paths, dim=1)", "n_paths"),
        ("x = torch.stack([path(x) for path in self.paths], 1)", "n_paths"),
        ("x = torch.stack([f(m) for m in masks if m is not None], 1)", None),
        ("x = torch.stack((sin, cos), -1)", None),
        ("x = torch.stack(loss, 0)", None),
        ("a, b = torch.stack(outs, 0), torch.stack(ins, 0)", None),
    ],
)
def test_a_list_tells_how_many_there_are(statement: str, word: str | None) -> None:
    assert word_of_stack(statement) == word
