"""An AdamW update over many parameters, compiled: one kernel for all of them, and what it computes is eager's."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from longhand.backend import longhand_backend

SHAPES = [(16, 16), (16,), (16, 64), (64,)] * 3
LR, BETA1, BETA2, EPS, DECAY = 1e-3, 0.9, 0.99, 1e-8, 0.01


def loop(params, grads, exp_avgs, exp_avg_sqs, step: float) -> None:
    """As a person writes it."""
    for param, grad, exp_avg, exp_avg_sq in zip(params, grads, exp_avgs, exp_avg_sqs, strict=True):
        param.mul_(1 - LR * DECAY)
        exp_avg.lerp_(grad, 1 - BETA1)
        exp_avg_sq.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        denominator = (exp_avg_sq / (1 - BETA2**step)).sqrt_().add_(EPS)
        param.addcdiv_(exp_avg, denominator, value=-LR / (1 - BETA1**step))


def foreach(params, grads, exp_avgs, exp_avg_sqs, step: float) -> None:
    """As torch.optim writes it."""
    torch._foreach_mul_(params, 1 - LR * DECAY)
    torch._foreach_lerp_(exp_avgs, grads, 1 - BETA1)
    torch._foreach_mul_(exp_avg_sqs, BETA2)
    torch._foreach_addcmul_(exp_avg_sqs, grads, grads, value=1 - BETA2)
    denominators = torch._foreach_div(exp_avg_sqs, 1 - BETA2**step)
    torch._foreach_sqrt_(denominators)
    torch._foreach_add_(denominators, EPS)
    torch._foreach_addcdiv_(params, exp_avgs, denominators, value=-LR / (1 - BETA1**step))


def _state(dtype: torch.dtype) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    lists = [[torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES] for _ in range(4)]
    return [*lists[:3], [tensor.abs() for tensor in lists[3]]]


@pytest.mark.parametrize("update", [loop, foreach])
def test_it_is_one_kernel_and_eagers_result(update: Callable[..., None], tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))  # so that it is made now
    torch.compiler.reset()
    reports = []
    compiled = torch.compile(update, backend=functools.partial(longhand_backend, report=reports.append))
    exact, eager, ours = _state(torch.float64), _state(torch.float32), _state(torch.float32)
    for state, run in ((exact, update), (eager, update), (ours, compiled)):
        run(*state, 3.0)
    assert [report.reason for report in reports] == [None]
    summary = reports[0].summary
    assert (summary.n_kernels, summary.n_launches) == (1, len(SHAPES))
    assert not summary.library_calls
    for ours_list, eager_list, exact_list in zip(ours, eager, exact, strict=True):
        for mine, theirs, true in zip(ours_list, eager_list, exact_list, strict=True):
            allowed = max(2 * (theirs - true).abs().max().item(), 1.2e-7 * true.abs().max().item())
            assert (mine - true).abs().max().item() <= allowed
