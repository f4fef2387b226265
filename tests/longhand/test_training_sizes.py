"""Training where sizes vary from step to step: each set of sizes in kernels, with eager's gradients."""

import functools
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from longhand.compiled import concrete_sizes
from longhand.compiled.backend import longhand_backend
from longhand.compiled.from_bytecode import captured
from longhand.errors import CaptureError, EagerWarning

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


def compiled(model, frontend="dynamo", **options):
    reports = []
    if frontend == "bytecode":
        return captured(model, report=reports.append, **options), reports
    settings = {"strict": options.pop("strict", False)}
    backend = functools.partial(longhand_backend, report=reports.append, options=settings)
    return torch.compile(model, backend=backend, **options), reports


def step(run, model, *args):
    """A result and all gradients."""
    model.zero_grad()
    args = [one.clone().requires_grad_() if isinstance(one, torch.Tensor) else one for one in args]
    results = run(*args)
    results = results if isinstance(results, tuple) else (results,)
    sum((result**2).sum() for result in results).backward()
    given = [one.grad for one in args if isinstance(one, torch.Tensor)]
    return [*(one.detach() for one in results), *given, *(p.grad.clone() for p in model.parameters())]


def assert_step(run, model, *args):
    for ours, theirs in zip(step(run, model, *args), step(model, model, *args), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def layers():
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 5))


@pytest.mark.parametrize(("frontend", "dynamic"), [("dynamo", None), ("dynamo", True), ("bytecode", True)])
def test_each_size_is_in_kernels_and_right(frontend, dynamic):
    model, rows = layers(), (64, 160, 32)
    run, reports = compiled(model, frontend, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        for n in (*rows, *rows, 64):
            assert_step(run, model, torch.randn(n, 24))
    assert [report.reason for report in reports] == [None] * len(reports)
    assert sum(report.calls.in_kernels() for report in reports) == 7
    # Dynamo's first graph is for 64 rows alone until another size comes, and its second is for all.
    assert len(reports) == (4 if dynamic is None else 3)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def attend(self, x):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x, scale):
        kept = x * scale
        attended = checkpoint(self.attend, kept, use_reentrant=False)
        with torch.no_grad():
            mean = attended.mean()
        y = kept + attended * mean + x.shape[1]
        return y, y[:, 1:]


def test_two_sizes_numbers_views_and_a_checkpoint():
    model = Block()
    run, reports = compiled(model, dynamic=True)
    for batch, seq, scale in ((2, 5, 0.5), (3, 7, 0.5), (2, 5, 0.5), (2, 5, 2.0)):
        assert_step(run, model, torch.randn(batch, seq, 16), scale)
    assert [report.reason for report in reports] == [None] * 3  # another number is another unit
    assert sum(report.calls.in_kernels() for report in reports) == 4


@pytest.fixture
def two_sets(monkeypatch):
    """Two sets of sizes are enough to pass the limit."""
    monkeypatch.setattr(concrete_sizes, "MOST_SETS", 2)


@pytest.mark.usefixtures("two_sets")
def test_past_the_limit_it_is_eager_and_told_once():
    model = nn.Linear(6, 3)
    run, reports = compiled(model, dynamic=True)
    for n in (2, 3):
        assert_step(run, model, torch.randn(n, 6))
    with pytest.warns(EagerWarning, match="compiled for .* other sets of sizes") as told:
        for n in (20, 21, 20):
            assert_step(run, model, torch.randn(n, 6))
    assert len([one for one in told if one.category is EagerWarning]) == 1
    assert_step(run, model, torch.randn(2, 6))
    assert [report.calls.in_kernels() for report in reports] == [2, 1, 0]
    assert reports[-1].calls.in_eager.total() == 3


@pytest.mark.usefixtures("two_sets")
def test_past_the_limit_strict_raises():
    model = nn.Linear(6, 3)
    run, _ = compiled(model, dynamic=True, strict=True)
    for n in (2, 3):
        run(torch.randn(n, 6))
    with pytest.raises(CaptureError, match="other sets of sizes"):
        run(torch.randn(20, 6))
