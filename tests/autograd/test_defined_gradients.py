"""A gradient is None, or zeros, where it is so in eager: optimizers leave the one alone and decay the other."""

from __future__ import annotations

import pytest
import torch

from longhand.compiled.from_bytecode import captured
from tests.autograd.cases import leaf

STRICT = {"strict": True}


def copied_over(x, z):
    y = x * 2
    y.copy_(z)
    return y.sin()


def zeroed(x, z):
    y = x.clone()
    y.zero_()
    return y + 1


def filled(x, z):
    y = x * 2
    y.fill_(2.0)
    return y * z


def a_view_written(x, z):
    y = x * 2
    row = y[0]
    row.copy_(z[0])
    return row.sin()


def a_view_written_beside(x, z):
    y = x * 2
    row = y[0]
    y[1] = z[1]
    return row.sin()


def whole_views_written(x, z):
    y = x * 2
    y.view(-1).t()[:] = z.view(-1)
    return y.sin()


def both_returned(x, z):
    y = x * 2
    z = z.cos()
    y.copy_(z)
    return z * 1


def a_branch_that_no_element_takes(x, z):
    return torch.where(torch.arange(x.shape[1]) >= 0, x, z.exp()).sin()


def a_mask_that_covers_all(x, z):
    return x.masked_fill(torch.arange(x.shape[1]) >= 0, 0.5) * z


def not_read_at_all(x, z):
    return torch.zeros_like(x) + z


def looked_at_only(x, z):
    return z.expand_as(x) * x.detach()


ONE_RESULT = [
    copied_over,
    zeroed,
    filled,
    a_view_written,
    a_view_written_beside,
    whole_views_written,
    both_returned,
    a_branch_that_no_element_takes,
    a_mask_that_covers_all,
    not_read_at_all,
    looked_at_only,
]


def gradients(function, used=(0,), n_leaves=2):
    found = []
    for seed in range(2):
        leaves = [leaf(3, 4, seed=10 * seed + n) for n in range(n_leaves)]
        results = function(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        sum(results[place].sum() for place in used).backward()
        found += [one.grad for one in leaves]
    return found


def check(function, **how):
    found, wanted = gradients(captured(function, options=STRICT), **how), gradients(function, **how)
    assert [one is None for one in found] == [one is None for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert other is None or torch.allclose(one, other)


@pytest.mark.parametrize("function", ONE_RESULT, ids=lambda function: function.__name__)
def test_what_is_overwritten_has_zeros_and_what_is_not_reached_has_none(function, hook):
    check(function)


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_what_only_other_results_depend_on_has_none(used, hook):
    def function(x, z, w):
        return (x * w).sin(), (z * w).sin(), x.exp(), z > 0

    check(function, used=used, n_leaves=3)


def test_layers_that_only_one_of_two_results_depends_on(hook):
    """The gradients of equal layers are returned in runs."""
    models = []
    for wrap in (lambda model: model, lambda model: captured(model, options=STRICT)):
        torch.manual_seed(0)
        model = wrap(TwoHeads())
        for used in (0, 1):
            model(leaf(5, 8))[used].sum().backward()
            models.append([(n, p.grad is None) for n, p in model.named_parameters()])
            model.zero_grad(set_to_none=True)
    assert models[:2] == models[2:]
    assert any(is_none for _, is_none in models[0])


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(6))
        self.rest = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(6))
        self.head = torch.nn.Linear(8, 3)
        self.aux = torch.nn.Linear(8, 3)

    def forward(self, x):
        for layer in self.body:
            x = layer(x).relu()
        early = self.aux(x)
        for layer in self.rest:
            x = layer(x).relu()
        return self.head(x), early


def test_weight_decay_leaves_alone_what_was_not_trained(hook):
    ends = []
    for wrap in (lambda model: model, lambda model: captured(model, options=STRICT)):
        torch.manual_seed(0)
        model = wrap(TwoHeads())
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(leaf(5, 8, seed=step))[1].sum().backward()
            optimizer.step()
        ends.append({name: value.detach().clone() for name, value in model.named_parameters()})
    for name, wanted in ends[0].items():
        assert torch.allclose(ends[1][name], wanted, atol=1e-5), name


def test_a_derivative_of_the_users_that_says_none_stays_none(hook):
    class Cut(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    def function(x, z, w):
        return Cut.apply(x.sin()) + z, w * x

    check(function, used=(0,), n_leaves=3)
    check(function, used=(1,), n_leaves=3)
