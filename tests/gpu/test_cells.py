"""A GRU's and an LSTM's cells on a GPU, where eager runs fused ones: results and gradients, in kernels of ours."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import EagerWarning

pytestmark = pytest.mark.gpu


class Recurrent(nn.Module):
    """A few steps by hand."""

    def __init__(self, make: type[nn.RNNCellBase]) -> None:
        super().__init__()
        self.cell = make(6, 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        state = None
        for x in inputs:
            state = self.cell(x, state)
        return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("make", [nn.GRUCell, nn.LSTMCell])
def test_a_training_step(make, tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LONGHAND_STRICT", "1")
    longhand.reset()
    eager = Recurrent(make).cuda()
    ours, inputs = copy.deepcopy(eager), torch.randn(3, 5, 6, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        results = longhand.compile(ours)(inputs), eager(inputs)
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    for result in results:
        result.square().sum().backward()
    for mine, theirs in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-4)
