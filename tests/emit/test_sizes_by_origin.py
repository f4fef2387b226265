"""A size is told by where it comes from: what is as long by chance has no part in it."""

from __future__ import annotations

import re

import pytest
import torch
from torch import fx, nn

from benchmarks.readability.units import text_of
from longhand.capture.graph import Provenance
from longhand.schedule.names.dimensions.compound_names import ProductWord
from longhand.schedule.names.dimensions.reshaped_words import reshaped
from longhand.schedule.names.shared.words_of_forward_pass import is_again


class RepeatedKeys(nn.Module):
    """Six heads of queries over two of keys, which are made as many by hand, as in a backward pass of attention."""

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        batch, n_heads, seq, head_dim = query.shape
        n_kv_heads = key.shape[1]
        few = key[:, :, None].expand(batch, n_kv_heads, n_heads // n_kv_heads, seq, head_dim)
        return query @ (few.reshape(batch, n_heads, seq, head_dim).mul(0.5)).transpose(2, 3)


@pytest.mark.parametrize("batch", [2, 3])
def test_a_product_is_not_divided_by_a_number(batch: int) -> None:
    """So many heads of queries are for one of keys: ``batch * n_heads // 4`` is that for batch 2 alone."""
    query, key = torch.randn(batch, 6, 19, 16), torch.randn(batch, 2, 19, 16)
    model = text_of((RepeatedKeys(), (query, key), {}), "cuda", train=False)["model.py"]
    assert "n_rows=n_heads // heads" in model


def _node(name: str, module: str, size: int) -> fx.Node:
    node = fx.Graph().create_node("call_function", torch.ops.aten.transpose.int, (None, 1, 2), name=name)
    node.meta = {"val": torch.empty(2, size, 64), "provenance": Provenance("y = x.mT", module=module)}
    return node


def test_what_a_backward_pass_computes_again_is_told_by_more_than_its_name() -> None:
    """Both graphs count nodes: the widths of experts were ``seq``, as the forward's ``transpose_11`` has tokens."""
    source = _node("transpose_11", "attn", 19)
    assert is_again(_node("transpose_11", "attn", 19), source)
    assert not is_again(_node("transpose_11", "experts", 19), source)
    assert not is_again(_node("transpose_11", "attn", 96), source)
    assert not is_again(source, None)


class Projected(nn.Module):
    """A residual layer that calls its own features ``nf``, as GPT-2 does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 32))
        self.nf = 32

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.mm(x.view(-1, x.size(-1)), self.weight)
        made = rows.view(x.shape[0], x.shape[1], self.nf)
        return torch.softmax((made + x).tanh(), -1)


def test_words_that_meet_are_one() -> None:
    """What is added to features of ``dim`` is no ``nf`` of them."""
    model = text_of((Projected(), (torch.randn(2, 19, 32),), {}), "cpu", train=False)["model.py"]
    assert not re.search(r"\b(nf|NF)\b", model.replace("self.nf", "")) and "dim" in model


class Attended(nn.Module):
    """Attention of a sequence to itself under a mask, whose two sides have words of their own."""

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q_length, kv_length = mask.shape
        return torch.softmax(scores.relu().view(6, q_length, kv_length) + mask, -1)


def test_words_that_stand_beside_each_other_stay_two() -> None:
    model = text_of((Attended(), (torch.randn(6, 19, 19), torch.randn(19, 19)), {}), "cpu", train=False)[
        "model.py"
    ]
    assert "q_length" in model and "kv_length" in model


class Pooled(nn.Module):
    """The end of a VGG: whatever the size of the image, seven by seven."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(8 * 49, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = nn.functional.adaptive_avg_pool2d(image.relu(), (7, 7))
        return self.classifier(torch.flatten(x, 1).tanh())


def test_what_is_pooled_to_a_size_keeps_its_batch_and_its_channels() -> None:
    """A batch of two was ``n_rows=2``, and what the classifier reads ``392``."""
    example = Pooled(), (torch.randn(2, 8, 14, 14),), {}
    files = text_of(example, "cuda", train=True)
    assert "n_rows=2" not in files["backward.py"] and "392" not in files["backward.py"]


class Attention(nn.Module):
    """Attention on a GPU keeps the sum of each query's exponentials, for as many queries as divide by 32."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(query.tanh(), key, value)


def test_what_attention_pads_does_not_make_the_sequence_unclear() -> None:
    heads = [torch.randn(2, 4, 19, 16, requires_grad=True) for _ in range(3)]
    files = text_of((Attention(), tuple(heads), {}), "cuda", train=True)
    kept = [line for line in files["backward.py"].splitlines() if "torch.Tensor  #" in line]
    assert any("log_sumexp" in line and "32" in line for line in kept)
    assert not any(re.search(r"\b19\b", line) for line in kept)


def test_rows_that_are_taken_apart_keep_what_they_are_made_of() -> None:
    """Each of the two experts of a token makes a row, that are put together by token: never ``num_tokens = 38``."""
    rows = ProductWord(("batch", "seq", "top_k"), (2, 19, 2))
    assert reshaped((76, 64), (rows, "dim"), (38, 2, 64)) == ("batch * seq", "top_k", "dim")
    assert reshaped((76, 64), (rows, "dim"), (2, 38, 64)) == ("batch", "seq * top_k", "dim")
    assert reshaped((76, 64), (rows, "dim"), (4, 19, 64)) == (None, None, "dim")
    assert reshaped((32,), (ProductWord(("batch", "seq"), (4, 8)),), (8, 4)) == (None, None)


class Causal(nn.Module):
    """A convolution that looks back: what is made beyond the last position is cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(32, 32, 4, padding=3, groups=32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seq = x.shape[1]
        return self.conv(x.transpose(1, 2))[:, :, :seq].transpose(1, 2)


def test_a_slice_up_to_a_size_says_it() -> None:
    model = text_of((Causal(), (torch.randn(2, 19, 32),), {}), "cpu", train=False)["model.py"]
    assert ":, :, :seq" in model and ":19" not in model
