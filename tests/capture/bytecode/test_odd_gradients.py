"""Gradients' corners: modes that are switched inside, that stay, that nest; functions with own gradients."""

import pytest
import torch

from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)
Y = torch.linspace(1, 3, 6).reshape(2, 3)


@ALL.scenario
def gradients_switched_inside(run):
    def f(x, w):
        w.requires_grad_(True)
        y = (x * w).sum()
        y.backward()
        return w.grad.clone(), y.detach(), w.requires_grad

    g = run(f)
    return [g(X, Y.clone()) for _ in range(2)]


@ALL.scenario
def gradients_of_some_inputs(run):
    def f(x, y):
        with torch.no_grad():
            a = x * 2
        b = y.detach() * x
        c = (x + y) * a + b
        return c, a, c.requires_grad, a.requires_grad, (x * 1).is_leaf

    g, seen = run(f), []
    for flags in ((False, False), (True, False), (False, True), (True, True)):
        x, y = (t.clone().requires_grad_(flag) for t, flag in zip((X, Y), flags, strict=True))
        c, a, *rest = g(x, y)
        if c.requires_grad:
            c.sum().backward()
        seen += [c.detach(), a, rest, x.grad, y.grad]
    return seen


@ALL.scenario
def functions_behind_no_grad(run):
    @torch.no_grad()
    def quiet(x):
        return x * 2, torch.is_grad_enabled()

    @torch.enable_grad()
    def loud(x):
        return x * 3, torch.is_grad_enabled()

    @torch.inference_mode(False)
    def plain(x):
        return x + 1

    def f(x):
        a, was = quiet(x)
        b, could = loud(x)
        return (
            (a + b + plain(x)).detach(),
            was,
            could,
            torch.is_grad_enabled(),
            (a + 1).requires_grad,
            b.requires_grad,
        )

    g, x = run(f), X.clone().requires_grad_()
    with torch.no_grad():
        second = g(x)
    return g(x), second, g(x)


@ALL.scenario
def a_mode_that_stays(run):
    def f(x):
        torch.set_grad_enabled(False)
        y = x * 2
        return y, torch.is_grad_enabled()

    g, seen = run(f), []
    try:
        for _ in range(2):
            seen += [g(X), torch.is_grad_enabled()]
            torch.set_grad_enabled(True)
    finally:
        torch.set_grad_enabled(True)
    return seen


@ALL.scenario
def autocast_inside_autocast(run):
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ x.T
            with torch.autocast("cpu", enabled=False):
                b = x @ x.T
                with torch.autocast("cpu", dtype=torch.float16):
                    c = x @ x.T
            d = a @ a
        return a, b, c, d, a.dtype, b.dtype, c.dtype, (x @ x.T).dtype

    g = run(f)
    first = g(X)
    with torch.autocast("cpu", dtype=torch.float16):
        second = g(X)
    return first, second, g(X), torch.is_autocast_enabled("cpu")


@ALL.scenario
def inference_tensors(run):
    def f(x):
        y = x + 1
        return y * 2, y.is_inference(), torch.is_inference_mode_enabled()

    g = run(f)
    with torch.inference_mode():
        made = torch.ones(2, 3)
        one = g(made)[1:]
    two = tell(g, made)
    return one, two, g(X), (X + 0).is_inference()


@ALL.scenario
def a_custom_function_with_gradients(run):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * ctx.k * 100 + x * 0, None

    def f(x):
        return Double.apply(x + 1, 3) * 2

    g, seen = run(f), [run(f)(X)]
    for _ in range(2):
        x = X.clone().requires_grad_()
        y = g(x)
        y.sum().backward()
        seen += [y.detach(), x.grad]
    return seen


@pytest.mark.parametrize("name", ALL)
def test_odd_gradients(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_gradients_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
