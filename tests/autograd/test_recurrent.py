"""Recurrent layers in training, on the CPU: results and gradients are eager's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import longhand
from longhand.compiled.backend import GraphReport
from longhand.compiled.from_bytecode import captured


class Recurrent(nn.Module):
    """A layer, whose hidden states are results, too."""

    def __init__(self, make: type[nn.RNNBase], n_layers: int, bidirectional: bool) -> None:
        super().__init__()
        self.layer = make(6, 8, n_layers, batch_first=True, bidirectional=bidirectional)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, state = self.layer(x)
        return out, state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_step_is_eagers(make, n_layers, bidirectional, tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    longhand.reset()
    torch.manual_seed(0)
    eager = Recurrent(make, n_layers, bidirectional)
    ours = copy.deepcopy(eager)
    inputs = [torch.randn(2, 5, 6).requires_grad_() for _ in range(2)]
    inputs[1].data.copy_(inputs[0].data)
    reports: list[GraphReport] = []
    results = captured(ours, report=reports.append)(inputs[0]), eager(inputs[1])
    assert [report.reason for report in reports] == [None]
    torch.testing.assert_close(*results)
    for out, state in results:
        (out.square().sum() + state.sum()).backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    for mine, theirs in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)
