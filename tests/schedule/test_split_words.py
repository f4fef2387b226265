"""The user's word for the size of a split's pieces belongs to the dimension that was split, and to no other."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import fx

from longhand.capture.graph import Provenance
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
