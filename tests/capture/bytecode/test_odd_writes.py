"""Writes and aliases: inputs that share memory, views, results that are inputs, graphs that raise after those."""

import pytest
import torch
from torch import nn

from tests.capture.bytecode.running import Captured
from tests.capture.bytecode.scenarios import Scenarios, tell

ALL = Scenarios()
X = torch.linspace(-2, 2, 6).reshape(2, 3)
Y = torch.linspace(1, 3, 6).reshape(2, 3)


@ALL.scenario
def inputs_that_are_one(run):
    def f(a, b):
        a.add_(1)
        b.mul_(2)
        return a + b, a is b

    g, seen = run(f), []
    for _ in range(2):
        x, y = X.clone(), Y.clone()
        seen += [g(x, y), x, y]
        z = X.clone()
        seen += [g(z, z), z]
        w = torch.arange(12.0).reshape(4, 3)
        seen += [g(w[:2], w[2:]), w]
        w = torch.arange(9.0).reshape(3, 3)
        seen += [g(w[:2], w[1:]), w]
        w = torch.arange(6.0).reshape(2, 3)
        seen += [g(w, w.view(2, 3)), w]
    return seen


@ALL.scenario
def writes_through_views(run):
    def f(x):
        y = x[0]
        y.mul_(10)
        x[:, 1] += 5
        z = x.view(-1)
        z[::2] = 0
        x.t()[2, 1] = -1
        return y, z, x.sum()

    g, seen = run(f), []
    for _ in range(3):
        x = X.clone()
        seen += [g(x), x]
    base = torch.arange(12.0).reshape(2, 6)
    return [*seen, g(base[:, ::2]) if False else tell(g, base[:, :3].clone()), base]


@ALL.scenario
def results_that_are_inputs(run):
    def f(x, y):
        return x, [y, x], x.view(-1), x[0], x.detach(), (x + 0), y.t()

    def storage(t):
        return t.untyped_storage().data_ptr()

    x, y = X.clone(), Y.clone()
    g, seen = run(f), []
    for _ in range(2):
        a, (b, c), d, e, h, i, j = g(x, y)
        seen.append([a is x, b is y, c is x])
        seen.append([storage(t) == storage(x) for t in (d, e, h, i)] + [storage(j) == storage(y)])
        d[0] = 77
        j[0, 0] = 55
        seen += [x.clone(), y.clone()]
    return seen


@ALL.scenario
def raising_graphs_and_effects(run):
    def f(x, index, log):
        log.append("before")
        y = x * 2
        z = y[index]
        log.append("after")
        return z

    g, logs = run(f), []
    good, bad = torch.tensor([0, 1]), torch.tensor([0, 9])
    seen = [
        tell(g, X, good, logs),
        tell(g, X, bad, logs)[0],
        tell(g, X, good, logs),
        tell(g, X, bad, logs)[0],
    ]
    return seen, logs


@ALL.scenario
def raising_graphs_that_wrote(run):
    def f(x, index, log):
        log.append("before")
        x.add_(1)
        try:
            y = x[index]
        except IndexError:
            log.append("handled")
            y = x[:1]
        x.mul_(2)
        log.append("after")
        return y + x.sum()

    g, logs, seen = run(f), [], []
    for index in (torch.tensor([0, 1]), torch.tensor([0, 9]), torch.tensor([1]), torch.tensor([7])):
        x = X.clone()
        seen += [tell(g, x, index, logs), x]
    return seen, logs


@ALL.scenario
def raising_graphs_that_draw(run):
    def f(x, index):
        noise = torch.rand(3)
        try:
            return x[index] + noise
        except IndexError:
            return noise, torch.rand(2)

    g = run(f)
    return [g(X, torch.tensor(rows)) for rows in ([0, 1], [0, 9], [1], [7])], torch.rand(2)


@ALL.scenario
def raising_graphs_that_draw_and_drop(run):
    def f(x, index):
        y = nn.functional.dropout(x, 0.5, True)
        return y[index] + torch.randn(3)

    g = run(f)
    return [tell(g, X, torch.tensor(rows))[0] for rows in ([0, 1], [0, 9], [1])], torch.rand(2)


@ALL.scenario
def in_place_on_results_of_views(run):
    def f(x):
        a, b = x.chunk(2, dim=0)
        a.add_(b)
        c = x.unbind(1)
        c[0].zero_()
        d = x.expand(2, 2, 3)
        y = x.clone()
        y[y > 0] = -1
        y.masked_fill_(y < -1, 5)
        return a, b, d.sum(0), y

    g, seen = run(f), []
    for _ in range(2):
        x = X.clone()
        seen += [g(x), x]
    return seen


@ALL.scenario
def one_tensor_in_many_places(run):
    def f(d, items, x):
        d["t"].add_(1)
        items[0].mul_(2)
        return d["t"] + items[0] + x, d["t"] is x, items[0] is x

    g, seen = run(f), []
    for _ in range(2):
        x, y, z = X.clone(), Y.clone(), Y.clone() * 3
        seen += [g({"t": x}, [y], z), x, y, z]
        x = X.clone()
        seen += [g({"t": x}, [x], x), x]
        x, y = X.clone(), Y.clone()
        seen += [g({"t": x}, [y], x), x, y]
    return seen


@ALL.scenario
def tensors_in_globals_and_closures(run):
    scale = torch.tensor(2.0)
    held = {"w": torch.ones(3)}

    def f(x):
        held["w"] = held["w"] + 1
        scale.add_(1)
        return x * scale + held["w"]

    g = run(f)
    first = g(X), g(X)
    held["w"] = torch.zeros(3)
    return first, g(X), scale, held


def test_an_exception_says_what_is_lost(hook):
    """A graph that writes into an input is not run again: what the code did in Python before is told to be missing."""

    def f(x, index, log):
        log.append("before")
        x.add_(1)
        return x[index]

    log, captured = [], Captured(f)
    captured(X.clone(), torch.tensor([0]), log)
    with pytest.raises(IndexError) as raised:
        captured(X.clone(), torch.tensor([7]), log)
    assert (
        log == ["before"]
        and "what the code changed in Python before is not there" in raised.value.__notes__[0]
    )


@pytest.mark.parametrize("name", ALL)
def test_odd_writes(hook, name):
    ALL.check(name)


@pytest.mark.parametrize("name", ALL)
def test_odd_writes_with_symbolic_sizes(hook, name):
    ALL.check(name, dynamic=True)
