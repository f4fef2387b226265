"""An op that returns its argument, though its schema says nothing of it: what is written into one is in the other."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from longhand.capture.graph import AliasKind

# What is traced is a copy (dropout), or memory of its own: eager's result is its argument.
RETURNS = {
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "dropout of nothing": lambda x: F.dropout(x, 0.0, training=True),
    "feature_dropout": lambda x: torch.feature_dropout(x, 0.5, False),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=False),
    "type_as": lambda x: x.type_as(x),
    "conj_physical": torch.conj_physical,
    "atleast_2d": torch.atleast_2d,
    "cartesian_prod": lambda x: torch.cartesian_prod(x.view(-1)),
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
    "chain_matmul": torch.chain_matmul,
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x)[0],
}


@pytest.mark.parametrize("name", RETURNS)
def test_what_is_written_into_a_view_of_it_is_written_into_the_argument(captured, name):
    def run(x):
        mine = x * 2
        RETURNS[name](mine).view(-1)[1:].add_(1)
        RETURNS[name](x).view(-1)[:1].mul_(3)
        return mine, x + 1

    captured(run, (torch.randn(3, 4),))


def test_it_is_the_argument_of_every_size(captured):
    def run(x):
        same = F.dropout(x, 0.5, training=False)
        same.t()[1:].add_(1)
        return same, x * 2

    sizes = {"x": {0: torch.export.Dim("batch")}}
    captured(run, (torch.randn(3, 4),), dynamic_shapes=sizes, fresh=((torch.randn(5, 4),), {}))


def test_what_drops_something_is_no_argument(captured):
    graph = captured(lambda x: (F.dropout(x, 1.0, training=True), x * 1), (torch.randn(3, 4),))
    assert not graph.mutations
    assert [output.alias for output in graph.outputs] == [AliasKind.FRESH, AliasKind.FRESH]
