"""A second derivative costs the calls that want one, and not the training loop after it."""

import functools

import pytest
import torch
from torch import nn

from longhand.compiled.backend import longhand_backend
from longhand.compiled.from_bytecode import captured
from longhand.errors import EagerWarning

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


def compiled(model, frontend):
    reports = []
    if frontend == "bytecode":
        return captured(model, report=reports.append), reports
    return torch.compile(model, backend=functools.partial(longhand_backend, report=reports.append)), reports


def penalty(run, model, x):
    """A step that differentiates twice, and the gradients that it leaves."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    scores = run(x)
    (slope,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
    (scores.mean() + (slope.norm() - 1) ** 2).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def plain(run, model, x):
    model.zero_grad()
    run(x.clone().requires_grad_()).square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def assert_step(step, run, model, x):
    for ours, theirs in zip(step(run, model, x), step(model, model, x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("frontend", "width"), [("dynamo", 7), ("bytecode", 8)])
def test_kernels_come_back_when_none_is_asked_for(frontend, width):
    model, x = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 1)), torch.randn(5, 6)
    run, reports = compiled(model, frontend)
    assert_step(plain, run, model, x)
    with pytest.warns(EagerWarning, match="no second derivative"), pytest.raises(RuntimeError) as raised:
        penalty(run, model, x)
    assert "until one of them is differentiated once" in raised.value.__notes__[0]
    for _ in range(3):  # no hook takes the penalty's own backward pass for a plain step
        assert_step(penalty, run, model, x)
    (report,) = reports
    assert (report.calls.in_kernels(), report.calls.in_eager.total()) == (2, 3)
    for _ in range(4):
        assert_step(plain, run, model, x)
    assert (report.calls.in_kernels(), report.calls.in_eager.total()) == (5, 4)


def test_who_asks_again_stays_in_eager():
    # Another graph than above: what is known of a unit is known of it in every model.
    model, x = nn.Sequential(nn.Linear(6, 9), nn.Sigmoid(), nn.Linear(9, 1)), torch.randn(5, 6)
    run, _ = compiled(model, "bytecode")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no second derivative"):
            penalty(run, model, x)
        assert_step(plain, run, model, x)
    for step in (penalty, plain, penalty):
        assert_step(step, run, model, x)
