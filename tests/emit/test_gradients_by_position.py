"""Kernels read gradients of attention where the library leaves them; where it leaves them otherwise, they are moved."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(q.sin(), k.sin(), v)
        return attended.transpose(1, 2).flatten(2)


def test_a_library_that_lays_gradients_out_otherwise_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model, x = Attend(), torch.randn(2, 6, 32)
    unit = tmp_path / "attend_by_position"
    longhand.generate(model, (x,), out=unit, device="cpu", train=True, run=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    package = importlib.import_module(unit.name)
    made = package.model.Attend()
    made.load_state_dict(model.state_dict())

    plain = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default

    class Otherwise:
        default = staticmethod(lambda *args, **kwargs: [one.contiguous() for one in plain(*args, **kwargs)])

    monkeypatch.setattr(
        torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", Otherwise, raising=False
    )
    model(x).square().sum().backward()
    made(x).square().sum().backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(made.get_parameter(name).grad, weight.grad)
    sys.modules.pop(unit.name)
