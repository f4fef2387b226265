"""What decides something by a value, and what hands a difference in its last place on as one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.capture.known.decisions import decides
from longhand.options import Device, Target

Use = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@torch.library.custom_op("longhand_tests::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x.round()


@opaque.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Used(nn.Module):
    def __init__(self, use: Use) -> None:
        super().__init__()
        self.use = use

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.use(torch.exp(torch.arange(8.0)), x)


def decided(use: Use) -> bool:
    """Whether something is decided by a table of exponentials."""
    graph = capture_export(Used(use), (torch.randn(8, 8),), {}, target=Target(Device.CPU)).graph
    (table,) = (node for node in graph.nodes if node.target is torch.ops.aten.exp.default)
    return decides(table)


DECISIONS: dict[str, Use] = {
    "compared": lambda table, x: x > table,
    "chosen": lambda table, x: torch.where(x > table, x, 0.0),
    "cast": lambda table, x: x * table.long(),
    "floored": lambda table, x: x + table.floor(),
    "divided": lambda table, x: torch.div(x, table, rounding_mode="floor"),
    "shrunk": lambda table, x: F.hardshrink(x + table),
    "sorted": lambda table, x: (x + table).sort(-1).indices,
    "found": lambda table, x: (x * table).argmax(-1),
    "in a row of other work": lambda table, x: (x @ (x + table).softmax(-1)).round(),
    "unknown": lambda table, x: opaque(x + table),
}
OTHERS: dict[str, Use] = {
    "added": lambda table, x: x + table,
    "normalized": lambda table, x: F.layer_norm(x, (8,), table),
    "softmax": lambda table, x: (x + table).softmax(-1),
    "activated": lambda table, x: F.gelu(x) * table + F.relu(x - table),
    "attention": lambda table, x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], (x * table)[None, None]
    ),
    "values of a sort": lambda table, x: (x + table).sort(-1).values,
    "beside a decision": lambda table, x: torch.where(x > 0, table, x),
}


@pytest.mark.parametrize("use", DECISIONS.values(), ids=DECISIONS)
def test_these_decide(use: Use) -> None:
    assert decided(use)


@pytest.mark.parametrize("use", OTHERS.values(), ids=OTHERS)
def test_these_decide_nothing(use: Use) -> None:
    assert not decided(use)
