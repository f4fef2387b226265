"""CUDA's fused cells, written out: what eager computes on the CPU, as ops that have derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from longhand.capture.functionalize.decompositions import decomposition_table, gru_cell, is_kept, lstm_cell

aten = torch.ops.aten


def products(cell: nn.RNNCellBase, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x @ cell.weight_ih.T, state @ cell.weight_hh.T


@pytest.mark.parametrize("bias", [True, False])
def test_a_gru_is_the_cpus(bias):
    cell, x, state = nn.GRUCell(5, 7, bias=bias), torch.randn(3, 5), torch.randn(3, 7)
    biases = (cell.bias_ih, cell.bias_hh) if bias else ()
    found, workspace = gru_cell(*products(cell, x, state), state, *biases)
    torch.testing.assert_close(found, cell(x, state))
    assert workspace.shape == (3, 5 * 7)


@pytest.mark.parametrize("bias", [True, False])
def test_an_lstm_is_the_cpus(bias):
    cell, x = nn.LSTMCell(5, 7, bias=bias), torch.randn(3, 5)
    state, memory = torch.randn(3, 7), torch.randn(3, 7)
    biases = (cell.bias_ih, cell.bias_hh) if bias else ()
    *found, workspace = lstm_cell(*products(cell, x, state), memory, *biases)
    torch.testing.assert_close(tuple(found), cell(x, (state, memory)))
    assert workspace.shape == (3, 4 * 7)


@pytest.mark.parametrize("op, parts", [(aten._thnn_fused_gru_cell, 3), (aten._thnn_fused_lstm_cell, 4)])
def test_a_trace_holds_neither(op, parts):
    """On the meta device, where both exist: eager takes them on CUDA."""
    assert not is_kept(op.default)
    gates, state = torch.empty(2, parts * 4, device="meta"), torch.empty(2, 4, device="meta")

    def step(gates, state):
        return op(gates, gates, state)[0]

    graph = make_fx(step, decomposition_table=decomposition_table())(gates, state).graph
    assert not [node for node in graph.nodes if "thnn" in str(node.target)]
    assert [node for node in graph.nodes if node.target is aten.tanh.default]
