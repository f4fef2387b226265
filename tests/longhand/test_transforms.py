"""Transforms of torch.func (grad, vmap and their like): compiled below them, and never left open by what fails."""

import contextlib

import pytest
import torch
from torch import nn

import longhand
from longhand.capture import torch_transforms
from longhand.errors import LonghandError

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


def loss(weight, x):
    return (torch.tanh(x @ weight) ** 2).sum()


W, X = torch.randn(4, 3), torch.randn(5, 4)
LAYER = nn.Linear(4, 3)


def with_other_weights(x):
    weights = {name: value * 2 for name, value in LAYER.named_parameters()}
    return torch.func.functional_call(LAYER, weights, (x,))


CALLS = {
    "grad": (torch.func.grad(loss), (W, X)),
    "vmap": (torch.vmap(lambda x: (x * 2).sum() + x), (X,)),
    "jacrev": (torch.func.jacrev(lambda w: torch.tanh(X @ w)), (W,)),
    "gradients of each example": (torch.vmap(torch.func.grad(loss), in_dims=(None, 0)), (W, X[:, None])),
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled(name):
    function, args = CALLS[name]
    torch.testing.assert_close(longhand.compile(function)(*args), function(*args))
    told = longhand.explain(function)(*args)
    assert [graph.reason for graph in told.graphs] == [None], told


def test_functional_call():
    with torch.no_grad():
        torch.testing.assert_close(longhand.compile(with_other_weights)(X), with_other_weights(X))


def test_forward_mode_is_told_and_right():
    hessian = torch.func.hessian(lambda v: (v**3).sum())
    told = longhand.explain(hessian)(X[0])
    assert any("forward-mode" in (graph.reason or "") for graph in told.graphs)
    torch.testing.assert_close(longhand.compile(hessian)(X[0]), hessian(X[0]))


def test_generated(tmp_path):
    function = torch.vmap(lambda x: (x @ x).sin())
    longhand.generate(function, (X[:, :, None].expand(5, 4, 4).contiguous(),), out=tmp_path / "unit")
    y = torch.randn(5, 4, 4)
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(y), function(y))


FAILING = {
    "a size that depends on data": lambda x: x.unique(),
    "a branch on data": lambda x: x if x.sum() > 0 else -x,
    "random numbers": lambda x: x + torch.randn(4),
    "a value": lambda x: x * x.sum().item(),
    "linear algebra": lambda x: torch.linalg.eig(x.outer(x))[0].real.sort()[0],
}


@pytest.mark.parametrize("frontend", ["export", "bytecode"])
@pytest.mark.parametrize("name", FAILING)
def test_what_fails_leaves_no_level_open(name, frontend, tmp_path):
    with contextlib.suppress(LonghandError):
        longhand.generate(torch.vmap(FAILING[name]), (X,), out=tmp_path / "unit", frontend=frontend)
    assert torch_transforms.n_transforms() == 0
    nn.Linear(2, 2)
