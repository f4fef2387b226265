"""Sizes of kernels are called as the dimensions are: ``head_dim`` beside heads and positions, and not ``n_cols``."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.readability.units import text_of
from longhand.schedule.names.dimensions.axis_names import _with_channels
from longhand.schedule.names.dimensions.walked_dimensions import index_of, shared_words, size_of


class Heads(nn.Module):
    """Puts heads side by side again."""

    def __init__(self) -> None:
        super().__init__()
        self.n_heads = 2
        self.head_dim = 4
        self.qkv = nn.Linear(8, 8)
        self.proj = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q = self.qkv(x).view(batch, seq, self.n_heads, self.head_dim).transpose(1, 2)
        out = torch.matmul(torch.sigmoid(torch.matmul(q, q.transpose(-1, -2))), q)
        return self.proj(out.transpose(1, 2).reshape(batch, seq, dim))


def test_the_size_of_a_head_is_called_so() -> None:
    text = text_of((Heads().eval(), (torch.randn(2, 5, 8),), {}), "cpu", train=False)["model.py"]
    assert "head_dim=HEAD_DIM" in text
    assert "n_heads=N_HEADS" in text


def test_words_of_one_meaning_are_one() -> None:
    assert size_of(["attention_head_size"]) == "head_dim"
    assert shared_words([("head_dim",), ("attention_head_size",)]) == ("head_dim",)
    assert index_of(["num_key_value_groups"]) == index_of(["n_rep"]) == "repeat"
    assert index_of(["query_length"]) == "position"
    assert index_of(["batch", "conv_channels"]) == "batch_channel"


def test_calls_that_walk_different_dimensions_share_no_word() -> None:
    assert shared_words([("dim",), ("head_dim",)]) == ()
    assert shared_words([("n_heads",), ("n_kv_heads",)]) == ("n_heads",)


def test_what_is_counted_has_its_own_index_and_a_letter_says_less_than_columns() -> None:
    assert size_of(["n_heads"]) is None
    assert size_of(["seq"]) is None
    assert size_of(["d"]) is None
    assert size_of(["height", "width"]) is None


def test_what_lies_before_lines_and_columns_is_channels() -> None:
    """DenseNet's joined features have no word for how many they are: a kernel of them had n_rows of n_pixels."""
    assert _with_channels(("batch", None, "conv_height", "conv_width"))[1] == "channels"
    assert _with_channels(("batch", None, "seq", "head_dim"))[1] is None
    assert _with_channels(("batch", "n_heads", "height", "width"))[1] == "n_heads"
