"""Leaves that a call makes itself, with gradients wanted: MaskFormer's queries begin as such zeros in training."""

import copy
import warnings

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import EagerWarning


class Queries(nn.Module):
    """Zeros that want gradients, beside a layer that only sees them."""

    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.randn(4, 8))
        self.sees_zeros = nn.Linear(8, 8)
        self.unused = nn.Linear(8, 8)

    def queries(self, x):
        made = torch.zeros_like(self.places.repeat(x.shape[0], 1, 1), requires_grad=self.training)
        return made.requires_grad_(True)

    def forward(self, x):
        queries = self.queries(x)
        return (queries + self.places) @ x + self.sees_zeros(queries).sum(-1, keepdim=True)


class Returned(Queries):
    """The leaf itself is a result."""

    def forward(self, x):
        queries = self.queries(x)
        return super().forward(x), queries


class Alone(Queries):
    """A result that wants gradients for the leaf alone."""

    def forward(self, x):
        queries = self.queries(x)
        return (queries + self.places) @ x, queries.cos()


def step(module, call, x):
    """Whether results want gradients, and every parameter's gradient, None included."""
    results = call(x)
    results = results if isinstance(results, tuple) else (results,)
    sum(one.square().sum() for one in results).backward()
    gradients = {name: p.grad for name, p in module.named_parameters()}
    return results, gradients, [one.grad for one in results if one.is_leaf]


def assert_as_in_eager(kind):
    torch.manual_seed(0)
    module, x = kind(), torch.randn(2, 8, 3)
    other = copy.deepcopy(module)
    results, gradients, own = step(module, module, x)
    found, theirs, leaves = step(other, longhand.compile(other), x)
    assert [one.requires_grad for one in found] == [one.requires_grad for one in results]
    torch.testing.assert_close(found, results)
    assert [n for n, g in theirs.items() if g is None] == [n for n, g in gradients.items() if g is None]
    torch.testing.assert_close(
        [g for g in theirs.values() if g is not None], [g for g in gradients.values() if g is not None]
    )
    torch.testing.assert_close(leaves, own)


def test_a_leaf_inside_is_differentiated_like_a_constant():
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        assert_as_in_eager(Queries)


@pytest.mark.parametrize("kind", [Returned, Alone])
@pytest.mark.filterwarnings("ignore:longhand")
def test_a_leaf_whose_gradient_can_be_seen_is_eagers(kind):
    assert_as_in_eager(kind)
