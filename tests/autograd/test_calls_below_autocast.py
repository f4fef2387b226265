"""Under autocast linear layers and attention stay calls as the user made them, in inference and in training."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.compiled.backend import GraphReport
from longhand.compiled.from_bytecode import captured


class Attention(nn.Module):
    """Heads of queries and of keys, with a mask of bools or a causal one."""

    def __init__(self, heads: int, of_keys: int, causal: bool) -> None:
        super().__init__()
        self.shape = heads, of_keys
        self.causal = causal
        self.to_q, self.to_k = nn.Linear(32, 8 * heads), nn.Linear(32, 8 * of_keys, bias=False)
        self.out = nn.Linear(8 * heads, 32)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        heads, of_keys = self.shape
        q = self.to_q(x).unflatten(-1, (heads, 8)).transpose(1, 2)
        k = self.to_k(x).unflatten(-1, (of_keys, 8)).transpose(1, 2)
        if self.causal:
            made = F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=heads != of_keys)
        else:
            made = F.scaled_dot_product_attention(q, k, k, mask, enable_gqa=heads != of_keys)
        return self.out(made.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("heads, of_keys, causal", [(4, 4, False), (4, 4, True), (4, 2, True)])
def test_they_are_whole(heads, of_keys, causal, train, tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    longhand.reset()
    torch.manual_seed(0)
    eager = Attention(heads, of_keys, causal)
    ours = copy.deepcopy(eager)
    x, mask = torch.randn(2, 16, 32), torch.rand(2, 1, 16, 16) > 0.3
    reports: list[GraphReport] = []
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.set_grad_enabled(train):
        results = captured(ours, report=reports.append)(x, mask), eager(x, mask)
    torch.testing.assert_close(*results)
    (report,) = reports
    text = (Path(report.folder) / "model.py").read_text()
    assert text.count("F.linear(") == 3
    assert "softmax" not in text and "dot_product" in text
    if not train:
        return
    for result in results:
        result.float().square().sum().backward()
    for mine, theirs in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=3e-2, atol=3e-2)
