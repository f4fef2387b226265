"""Tensors' corners: subclasses, shapes, conditions, random numbers, dtypes, hooks, transforms."""

import functools
import random

import numpy as np
import pytest
import torch
from torch import nn

from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)
Y = torch.linspace(1, 3, 6).reshape(2, 3)


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        made = super().__torch_function__(function, kinds, args, kwargs or {})
        CALLS.append(getattr(function, "__name__", "?"))
        return made


CALLS = []


@ALL.scenario
def tensor_subclasses(run):
    def f(x):
        return torch.relu(x) + x.sum()

    g = run(f)
    CALLS.clear()
    first = g(X)
    made = g(X.as_subclass(Tagged))
    return first, type(made).__name__, made.as_subclass(torch.Tensor), list(CALLS), g(X)


@ALL.scenario
def objects_that_stand_for_tensors(run):
    class Wrapped:
        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_function__(cls, function, kinds, args=(), kwargs=None):
            plain = [arg.inner if isinstance(arg, Wrapped) else arg for arg in args]
            return cls(function(*plain, **(kwargs or {})))

    def f(x):
        return torch.add(x, 1).inner

    g = run(f)
    return g(Wrapped(X)), g(Wrapped(Y)), tell(g, X)[0]


@ALL.scenario
def sizes_as_values(run):
    def f(x):
        s = x.shape
        t = s + (4,)
        rows, *rest = s
        return (
            s,
            type(s),
            t,
            type(t),
            s[1:],
            type(s[1:]),
            s.numel(),
            rest,
            s == (2, 3),
            tuple(s),
            x.new_zeros(s[::-1]),
            x.reshape(rows, x.shape[1], 1),
            list(s) * 2,
            s * 2,
            max(s),
            sum(s),
            x.size(-1) ** 2,
            f"{s}",
        )

    g = run(f)
    return g(X), g(torch.ones(3, 4)), g(torch.ones(4, 5)), g(torch.ones(1, 3)), g(torch.ones(0, 3))


@ALL.scenario
def tensors_as_conditions(run):
    def f(x):
        n = 0
        while x.sum() > 0 and n < 5:
            x = x - 1
            n += 1
        if x.any():
            x = x * 2
        y = x if x.max() > 0 else -x
        return y, n, bool((x == x).all()), not x[0, 0], x[0, 0] and 3, x.min() in [1.0]

    g = run(f)
    return g(X), g(X + 5), g(X * 0), g(-X)


@ALL.scenario
def numbers_from_tensors(run):
    def f(x):
        n = int(x.sum().round())
        k = x[0, 0].item()
        items = x.tolist()
        y = torch.full((2,), float(n)) + k
        return y, n, items[0][0], len(x), x.nonzero().shape, x[x > 0]

    g = run(f)
    return g(X), g(X + 1), g(X)


@ALL.scenario
def random_numbers(run):
    def f(x):
        a = torch.rand(3)
        b = nn.functional.dropout(x, 0.5, training=True)
        return (
            a,
            b,
            torch.randn_like(x),
            torch.randint(0, 9, (4,)),
            torch.randperm(4),
            torch.bernoulli(x.abs() / 4),
        )

    g = run(f)
    first = g(X)
    torch.manual_seed(9)
    second = g(X)
    torch.manual_seed(9)
    return first, second, g(X), torch.rand(2)


@ALL.scenario
def generators_of_random_numbers(run):
    def f(x, gen):
        a = torch.rand(3, generator=gen)
        return x[0] + a, torch.randn(3, generator=gen), gen.initial_seed()

    g = run(f)
    gen, other = torch.Generator().manual_seed(4), torch.Generator().manual_seed(5)
    return g(X, gen), g(X, gen), g(X, other), torch.rand(2, generator=gen), g(X, None) if False else None


@ALL.scenario
def seeds_set_inside(run):
    def f(x):
        torch.manual_seed(5)
        a = torch.rand(3)
        with torch.random.fork_rng(devices=[]):
            b = torch.rand(3)
        return x[0] + a, b, torch.rand(3)

    g = run(f)
    return g(X), g(X), torch.rand(2)


@ALL.scenario
def pythons_random_numbers(run):
    def f(x):
        k = random.random()
        n = np.random.randint(0, 100)
        items = [1, 2, 3]
        random.shuffle(items)
        return x * k + n, items, random.choice("abc"), np.random.rand(2)

    random.seed(1)
    np.random.seed(1)
    g = run(f)
    return g(X), g(X), random.random(), np.random.rand()


@ALL.scenario
def dtypes_and_promotion(run):
    def f(x, k):
        return x + k, x * k, x / k, x // k, k - x, x**k, (x + k).dtype, torch.result_type(x, k)

    g = run(f)
    tensors = (
        torch.ones(2),
        torch.ones(2, dtype=torch.int32),
        torch.ones(2, dtype=torch.bool),
        torch.ones(2).half(),
    )
    return [tell(g, t, k) for t in tensors for k in (2, 2.5, True, torch.tensor(3.0), torch.tensor(2))]


@ALL.scenario
def attributes_of_tensors(run):
    def f(x):
        x.tag = "new"
        y = x * 2
        y.note = [1]
        return (
            y.note,
            getattr(x, "other", 5),
            x.tag,
            hasattr(y, "nothing"),
            x.data_ptr() == x.data_ptr(),
            y.grad,
        )

    g, x = run(f), X.clone()
    first = g(x), x.tag
    x.other = 9
    return first, g(x), vars(x)


@ALL.scenario
def hooks_and_parametrizations(run):
    m = nn.Linear(3, 3)
    nn.init.eye_(m.weight)
    nn.init.zeros_(m.bias)
    torch.nn.utils.parametrize.register_parametrization(m, "weight", nn.Tanh())
    seen = []
    m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    handle = m.register_forward_hook(lambda module, args, kwargs, out: out * 2, with_kwargs=True)
    m.register_full_backward_hook(lambda module, grads, outs: seen.append("backward"))
    g, x = run(m), X.clone().requires_grad_()
    y = g(x)
    y.sum().backward()
    first = y.detach(), x.grad.clone()
    handle.remove()
    return first, g(X).detach(), seen


@ALL.scenario
def transforms_of_functions(run):
    def f(x):
        per_row = torch.func.vmap(lambda row: row.sum() * 2)(x)
        slope = torch.func.grad(lambda v: (v**2).sum())(x)
        value, tangent = torch.func.jvp(torch.sin, (x,), (x * 0 + 1,))
        return per_row, slope, value, tangent, functools.reduce(torch.add, [x, x, x])

    g = run(f)
    return g(X), g(Y)


@ALL.scenario
def a_function_that_asks_for_transforms(run):
    def f(x):
        inner = torch.vmap(lambda row: row + torch._C._are_functorch_transforms_active())(x)
        return inner * 2 if torch._C._are_functorch_transforms_active() else inner + 1

    g = run(f)
    return g(X), torch.vmap(g)(X[None]), g(Y)


@pytest.mark.parametrize("name", ALL)
def test_odd_tensors(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_tensors_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
