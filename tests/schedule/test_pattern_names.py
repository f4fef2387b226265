"""Patterns for tensors (einops): their statements are quoted, not the package's own, and their axes are words."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import longhand
from longhand.schedule.names.dimensions.pattern_names import words_of_pattern

# Just as much of einops as takes axes apart and puts them together, with its own words inside.
_PACKAGE = """
import re


def rearrange(tensor, pattern, **axes_lengths):
    left, right = pattern.split("->")
    groups = [group.split() for group in re.findall(r"\\(([^)]*)\\)|(\\S+)", left) for group in [group[0] or group[1]]]
    sizes = {}
    for group, size in zip(groups, tensor.shape):
        known = [axes_lengths[axis] for axis in group if axis in axes_lengths]
        rest = size
        for one in known:
            rest //= one
        sizes.update({axis: axes_lengths.get(axis, rest) for axis in group})
    apart = [axis for group in groups for axis in group]
    tensor = tensor.reshape([sizes[axis] for axis in apart])
    wanted = [group.split() for group in re.findall(r"\\(([^)]*)\\)|(\\S+)", right) for group in [group[0] or group[1]]]
    tensor = tensor.permute([apart.index(axis) for group in wanted for axis in group])
    shape = []
    for group in wanted:
        size = 1
        for axis in group:
            size *= sizes[axis]
        shape.append(size)
    return tensor.reshape(shape)
"""

_MODEL = """
import torch
from einops.notation import rearrange
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = 3
        self.to_qkv = nn.Linear(12, 36)
        self.to_out = nn.Linear(12, 12)

    def forward(self, x):
        qkv = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = map(lambda t: rearrange(t, "b n (h d) -> b h n d", h=self.heads), qkv)
        attn = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        out = torch.tanh(rearrange(attn @ v, "b h n d -> b n (h d)"))
        return self.to_out(out)
"""


def _module(path: Path, name: str, text: str) -> ModuleType:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """model.py of an attention that is written with patterns."""
    monkeypatch.setitem(sys.modules, "einops", ModuleType("einops"))
    _module(tmp_path / "einops" / "notation.py", "einops.notation", _PACKAGE)
    model = _module(tmp_path / "attention_of_patterns.py", "attention_of_patterns", _MODEL)
    longhand.generate(model.Attention().eval(), (torch.randn(2, 5, 12),), out=tmp_path / "unit", device="cpu")
    return (tmp_path / "unit" / "model.py").read_text()


def test_the_users_statement_is_quoted_with_its_pattern(text: str) -> None:
    assert "b h n d -> b n (h d)" in text
    assert "tensor.reshape" not in text and "tensor = " not in text


def test_axes_are_words_for_sizes(text: str) -> None:
    assert "reshape(batch, seq, HEADS, D)" in text
    assert "reshape(2, 5, 3, 4)" not in text and ", 3, 5, 4" not in text
    assert "v = " in text  # by the user's target


@pytest.mark.parametrize(
    ("statement", "n_dims", "wanted"),
    [
        ('q = rearrange(q, "b n (h d) -> b h n d", h=self.heads)', 4, ("b", "n", "heads", "d")),
        ('out = rearrange(out, "b h n d -> b n (h d)")', 3, ("b", "n", None)),
        (
            'x = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=8, q=8)',
            6,
            ("b", "c", "h", "p", "w", "q"),
        ),
        ('x = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=8, q=8)', 3, ("b", None, None)),
        ('x = rearrange(x, "b ... d -> b d ...")', 3, None),
        ("x = x.reshape(b, n, d)", 3, None),
        ('y = join(rearrange(x, "a b -> b a"), rearrange(z, "c d -> d c"))', 2, None),
    ],
)
def test_words_of_a_pattern(statement: str, n_dims: int, wanted: tuple[str | None, ...] | None) -> None:
    assert words_of_pattern(statement, [2] * n_dims) == wanted
