"""The user's word for the size of a split's pieces belongs to the dimension that was split, and to no other."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import fx

from longhand.capture.graph import Provenance
from longhand.schedule.names.dimensions.customary_names import words_of_heads
from longhand.schedule.names.dimensions.dimension_propagation import propagated_names


@pytest.mark.parametrize(
    ("dim", "expected"), [(2, (None, "seq", "split_size")), (-1, (None, "seq", "split_size")), (0, None)]
)
def test_only_the_split_dimension_has_the_word(dim: int, expected: tuple[str | None, ...] | None) -> None:
    """GPT-2 with a batch of one: `(split_size, 12, seq, 64)` stood for its attention."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(1, 3, 48) if expected else torch.empty(48, 3, 1)
    split = graph.call_function(torch.ops.aten.split.Tensor, (x, 24, dim))
    split.meta["val"] = torch.ops.aten.split.Tensor(x.meta["val"], 24, dim)
    split.meta["provenance"] = Provenance("q, k = self.attn(x).split(self.split_size, dim=2)")
    piece = graph.call_function(operator.getitem, (split, 0))
    piece.meta["val"] = split.meta["val"][0]
    piece.meta["provenance"] = split.meta["provenance"]
    found = propagated_names(piece, {"x": (None, "seq", None)})
    assert found == (expected or ("split_size", "seq", None))


def test_a_number_that_is_picked_has_no_dimension() -> None:
    """`index_select` of a tensor without dimensions: there was none to count."""
    graph = fx.Graph()
    x, at = graph.placeholder("x"), graph.placeholder("at")
    x.meta["val"], at.meta["val"] = torch.tensor(2.0), torch.tensor([0])
    picked = graph.call_function(torch.ops.aten.index_select.default, (x, 0, at))
    picked.meta["val"] = torch.ops.aten.index_select.default(x.meta["val"], 0, at.meta["val"])
    assert propagated_names(picked, {}) == ()


def test_parts_of_an_unbound_tensor_have_the_words_of_the_other_dimensions() -> None:
    """They had none: `q, k, v = qkv.unbind(0)`, then 96 rows of (batch, num_heads, T)."""
    graph = fx.Graph()
    qkv = graph.placeholder("qkv")
    qkv.meta["val"] = torch.empty(3, 2, 4, 5, 8)
    parts = graph.call_function(torch.ops.aten.unbind.int, (qkv,))
    parts.meta["val"] = qkv.meta["val"].unbind()
    q = graph.call_function(operator.getitem, (parts, 0))
    q.meta["val"] = parts.meta["val"][0]
    words = {"qkv": (None, "batch", "num_heads", "seq", "head_dim")}
    assert propagated_names(q, words) == ("batch", "num_heads", "seq", "head_dim")


@pytest.mark.parametrize(
    ("order", "expected"),
    [((0, 2, 1, 3), ("batch", "seq", "n_heads", "head_dim")), ((0, 1, 3, 2), ("batch", "seq", None, None))],
)
def test_features_that_are_brought_before_the_tokens_are_heads(
    order: tuple[int, ...], expected: tuple[str | None, ...]
) -> None:
    """They had no word: ``q.new_empty(8, n_all_tokens, 16)``. Groups of channels that are shuffled have none still."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 7, 32)
    split = graph.call_function(torch.ops.aten.reshape.default, (x, [2, 7, 4, 8]))
    split.meta["val"] = torch.empty(2, 7, 4, 8)
    moved = graph.call_function(torch.ops.aten.permute.default, (split, list(order)))
    moved.meta["val"] = split.meta["val"].permute(order)
    assert words_of_heads(split, ("batch", "seq", None, None)) == expected
