"""Training under autocast: results, gradients and statistics are no farther from float64 than eager's are."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.compiled.backend import longhand_backend
from longhand.verify.comparison import compare


class Mixed(nn.Module):
    """Linear layers, norms and attention: what autocast runs in 16 bits and what in 32."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x))[:, None].chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0]
        return F.gelu(self.out(mixed)) + torch.softmax(mixed, -1)


def normed_images() -> nn.Module:
    """Convolutions with batch norms of every kind between them."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, bias=False),
        nn.BatchNorm2d(8, affine=False),
        nn.Conv2d(8, 4, 1, bias=False),
        nn.BatchNorm2d(4, track_running_stats=False),
    )


CALLS = {
    "attention and norms": lambda: (Mixed(), torch.randn(4, 9, 16)),
    "batch norms": lambda: (normed_images(), torch.randn(4, 3, 12, 12)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_step_under_autocast_is_as_good_as_eagers(name: str) -> None:
    torch.manual_seed(0)
    model, x = CALLS[name]()
    ours, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    torch.compiler.reset()
    reports: list = []
    run = torch.compile(ours, backend=functools.partial(longhand_backend, report=reports.append))
    found = step(ours, run, x, is_mixed=True)
    assert [report.reason for report in reports] == [None]
    truth = step(exact, exact, x.double(), is_mixed=False)
    for key, theirs in step(model, model, x, is_mixed=True).items():
        comparison = compare(key, found[key], theirs, truth[key])
        assert comparison.is_right, comparison


def step(model: nn.Module, run, x: torch.Tensor, *, is_mixed: bool) -> dict[str, torch.Tensor]:
    """What one step leaves, by name."""
    x = x.detach().clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
        y = run(x)
    noise = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    (y.double() * noise).sum().backward()
    assert x.grad is not None
    found = {"result": y.detach(), "x": x.grad}
    found |= {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found | dict(model.named_buffers())


@pytest.mark.parametrize("records", [True, False])
def test_dropout_under_autocast_is_in_kernels_and_draws_as_eager(records: bool) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.3), nn.GELU(), nn.Dropout(0.2))
    x = torch.randn(8, 16)
    torch.compiler.reset()
    reports: list = []
    run = torch.compile(model, backend=functools.partial(longhand_backend, report=reports.append))

    def result(function) -> torch.Tensor:
        torch.manual_seed(3)
        with torch.set_grad_enabled(records), torch.autocast("cpu", torch.bfloat16):
            return function(x)

    found, theirs = result(run), result(model)
    assert [report.reason for report in reports] == [None]
    assert torch.equal(found == 0, theirs == 0)
    torch.testing.assert_close(found, theirs, rtol=2**-6, atol=2**-6)


def test_a_backward_pass_turns_autocast_off_where_it_is_on_and_pays_nothing_where_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(3, 4)
    longhand.generate(nn.Linear(4, 2), (x,), out=tmp_path / "unit", train=True, run=False)
    unit = longhand.load(tmp_path / "unit")()
    package = type(unit).__module__.rpartition(".")[0]
    runtime, backward = sys.modules[f"{package}.runtime"], sys.modules[f"{package}.backward"]
    assert isinstance(runtime.own_types("cpu"), contextlib.nullcontext)
    seen = []
    real = backward.linear_backward

    def watched(*args: Any) -> Any:
        seen.append(torch.is_autocast_enabled("cpu"))
        return real(*args)

    monkeypatch.setattr(backward, "linear_backward", watched)
    for is_on in (False, True):
        loss = unit(x).sum()
        with torch.autocast("cpu", enabled=is_on):
            loss.backward()
            assert torch.is_autocast_enabled("cpu") is is_on
    assert seen == [False, False]
