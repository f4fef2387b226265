"""What was lost without a word: effects, second derivatives, facts that no guard held, and whole captures."""

import functools

import pytest
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.capture.bytecode.running import Captured
from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6, dtype=torch.float64).reshape(2, 3)


@ALL.scenario
def hooks_that_are_called_whatever_is_raised(run):
    class Refusing(nn.Module):
        def forward(self, x):
            if x.shape[0] == 2:
                raise ValueError("two rows")
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Refusing()

        def forward(self, x):
            try:
                return self.inner(x)
            except ValueError:
                return x * 0

    model, log = Outer(), []
    model.inner.register_forward_hook(lambda _, args, result: log.append(result is None), always_call=True)
    g = run(model)
    return g(X), g(X[:1]), g(X), log


class OwnVmap(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @staticmethod
    def vmap(info, in_dims, x):
        return OwnVmap.apply(x) + 100, in_dims[0]


@ALL.scenario
def a_function_with_a_vmap_of_its_own(run):
    return run(lambda x: torch.func.vmap(OwnVmap.apply)(x))(X)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x


class Exponential(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.exp()


def penalty(apply):
    """A function that differentiates what it computes with a Function, and keeps that differentiable."""

    def f(x):
        y = apply(x * 1).sum() + (x**3).sum()
        (slope,) = torch.autograd.grad(y, [x], create_graph=True)
        return slope.pow(2).sum()

    return f


@ALL.scenario
def second_derivatives_of_functions(run):
    seen = []
    for kind in (Square, Exponential, Once):
        g = run(penalty(kind.apply))
        for _ in range(2):
            x = X.clone().requires_grad_()
            g(x).backward()
            seen.append(x.grad)
    return seen


@ALL.scenario
def where_a_tensor_begins_in_its_memory(run):
    g, numbers = run(lambda x: x + x.storage_offset()), torch.arange(20.0)
    return g(numbers[:8]), g(numbers[3:11]), g(numbers[::2][:8])


@ALL.scenario
def whether_two_tensors_are_the_same_memory(run):
    g, x = run(lambda x, y: x * 2 if x.is_set_to(y) else x * 3), X.clone()
    return g(x, x.clone()), g(x, x.view_as(x)), g(x, x)


@ALL.scenario
def whether_a_tensor_is_a_view(run):
    g, x = run(lambda x: x + 1 if x._is_view() else x - 1), X.clone()
    return g(x), g(x[:]), g(x.clone())


@ALL.scenario
def what_is_done_when_an_object_goes(run):
    log = []

    class Counted:
        k = 3

        def __del__(self):
            log.append("gone")

    def f(x):
        return x * Counted().k

    g = run(f)
    return g(X), len(log), g(X), len(log), log


@ALL.scenario
def a_cache_that_is_cleared(run):
    factor, asked = [2.0], []

    @functools.lru_cache
    def known(k):
        asked.append(k)
        return k * factor[0]

    g = run(lambda x, k: x * known(k))
    seen = [g(X, 1), g(X, 1), g(X, 2)]
    factor[0] = 5.0
    seen.append(g(X, 1))
    known.cache_clear()
    return [*seen, g(X, 1), g(X, 2), g(X, 1), asked]


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_lost(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_lost_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)


class NoGradInside(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            slope = x.exp()
        return grad * slope


class AppliesAnother(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3 / 3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * Square.apply(x)


@pytest.mark.parametrize("kind", [NoGradInside, AppliesAnother])
def test_a_backward_whose_own_derivative_is_not_known_says_so(hook, kind):
    """Captured, it would have another one than in eager."""
    raised = tell(penalty(Captured(lambda x: kind.apply(x))), X.clone().requires_grad_())
    assert raised[0] == "raises" and "captured, it has no derivative" in raised[1][0][1]


@pytest.mark.parametrize("kind", [NoGradInside, AppliesAnother])
def test_a_second_derivative_that_the_code_itself_takes_is_eagers(hook, kind):
    x, f = X.clone().requires_grad_(), penalty(kind.apply)
    assert tell(Captured(f), x) == tell(f, x)


def maybe(x, k):
    return x if k == 0 else x * k


def test_a_first_call_that_does_nothing_leaves_the_others_captured(hook):
    """It was CPython's from then on, without a word."""
    g = Captured(maybe)
    for k in (0, 2, 0, 3):
        assert torch.equal(g(X, k), maybe(X, k))
    assert g.count("graph") == 2
    assert g(X, 0) is X
