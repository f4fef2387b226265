"""Hooks and retain_grad() on a result that leads to another one: a unit adds up inside what would come to it."""

import functools

import pytest
import torch
from torch import fx

import longhand
from longhand.compiled.watched_results import GradientOfPartError, leading_places, refuse_asked, watching
from longhand.errors import EagerWarning

X = torch.linspace(-2, 2, 8).reshape(2, 4)


class Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, (x * 4).sum()

    @staticmethod
    def backward(ctx, d_twice, d_total):
        refuse_asked(ctx)
        return d_twice * 2 + d_total * 4


def by_hand(x):
    twice = x * 2
    return twice, (twice * 2).sum()


def ignored(gradient):
    pass


def of_a_framework(gradient):
    pass


of_a_framework.__module__ = "torch.distributed.fsdp"


def called():
    x = X.clone().requires_grad_()
    return (x, *watching(Unit.apply, (0,))(x))


@pytest.mark.parametrize(
    "ask",
    [
        lambda result: result.retain_grad(),
        lambda result: result.register_hook(ignored),
        lambda result: result.register_hook(functools.partial(ignored)),
    ],
)
def test_who_asks_for_the_gradient_of_a_part_is_refused(ask):
    _, twice, total = called()
    ask(twice)
    with pytest.raises(GradientOfPartError, match="leads to another result"):
        total.backward()


def test_others_are_not():
    x, twice, total = called()
    total.retain_grad()  # it leads to nothing
    handle = twice.register_hook(ignored)
    handle.remove()
    twice.register_hook(of_a_framework)
    total.backward()
    assert torch.equal(x.grad, torch.full_like(X, 4)) and total.grad == 1


def places(results, *, requires_grad=True):
    graph = fx.Graph()
    nodes = {"x": graph.placeholder("x")}
    for name, source in (("twice", "x"), ("total", "twice"), ("other", "x")):
        nodes[name] = graph.call_function(torch.neg, (nodes[source],))
        nodes[name].meta["example_value"] = torch.zeros(2, requires_grad=requires_grad)
    graph.output(tuple(nodes.get(name) for name in results))
    return leading_places(fx.GraphModule(torch.nn.Module(), graph))


def test_what_leads_to_another_result_is_watched():
    assert places(["twice", "total"]) == (0,) and places(["total", "other", None, "twice"]) == (3,)
    assert places(["x", "total", "other"]) == () and places(["twice", "total"], requires_grad=False) == ()


def test_a_compiled_function_refuses_once_and_runs_in_eager_then():
    compiled = longhand.compile(by_hand)
    for number in range(2):
        x = X.clone().requires_grad_()
        twice, total = compiled(x)
        twice.retain_grad()
        if number == 0:
            with pytest.warns(EagerWarning, match="leads to another"), pytest.raises(GradientOfPartError):
                total.backward()
        else:
            total.backward()
            assert torch.equal(twice.grad, torch.full_like(X, 2))
            assert torch.equal(x.grad, torch.full_like(X, 4))
