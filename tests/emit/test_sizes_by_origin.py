"""A size is told by where it comes from: what is as long by chance has no part in it."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn

from benchmarks.readability.units import text_of
from longhand.capture.graph import Provenance
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
