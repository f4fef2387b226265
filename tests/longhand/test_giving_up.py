"""Code that is left to eager is left with all that it calls, told once, and longhand is never captured by longhand."""

import importlib
import logging
import os
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

import longhand
from longhand.capture.bytecode.hook import frame_hook
from longhand.compiled import from_bytecode
from longhand.errors import EagerWarning
from tests.longhand.compiled_objects import compiled

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.linear(x))


class Outer(nn.Module):
    """Depends on a number that is another at each call; its inner modules have graphs of their own after a break."""

    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.number = 0

    def forward(self, x):
        return self.inner(x) * (self.number + 1)


@pytest.fixture
def graphs(monkeypatch):
    """Every graph that is compiled, run in eager so that it costs nothing."""
    found = []

    def backend(module, inputs, **options):
        found.append(module)
        return module.forward

    monkeypatch.setattr(from_bytecode, "longhand_backend", backend)
    return found


def test_after_the_limit_nothing_below_is_compiled(graphs):
    module = Outer().eval()
    run = compiled(module)
    x = torch.randn(3, 4)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(20):
            module.number = number
            size = torch.randn(number + 2, 4)  # new sizes, too
            torch.testing.assert_close(run(size), module(size))
    assert len(graphs) == 8
    ours = [one for one in told if issubclass(one.category, EagerWarning)]
    assert len(ours) == 1 and "compiled 8 times" in str(ours[0].message)
    module.number = 7
    with torch.no_grad():
        torch.testing.assert_close(run(x), module(x))  # an old entry, or eager: right in both cases
    assert len(graphs) == 8


def test_a_graph_that_raises_where_eager_does_not(graphs, monkeypatch):
    def backend(module, inputs, **options):
        graphs.append(module)

        def fails(*inputs):
            raise RuntimeError("an axis was lost")

        return fails

    monkeypatch.setattr(from_bytecode, "longhand_backend", backend)
    module = Outer().eval()
    run = compiled(module)
    with torch.no_grad():
        with pytest.warns(EagerWarning, match=r"Outer\.forward.*RuntimeError.*LONGHAND_STRICT=1") as told:
            torch.testing.assert_close(run(torch.ones(3, 4)), module(torch.ones(3, 4)))
        assert len(told) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for rows in (3, 4, 5):
                torch.testing.assert_close(run(torch.ones(rows, 4)), module(torch.ones(rows, 4)))
    assert len(graphs) == 1
    with torch.no_grad(), pytest.raises(longhand.errors.CaptureError, match="which eager does not"):
        longhand.reset()
        compiled(module, options={"strict": True})(torch.ones(3, 4))


def test_capture_that_fails_is_told(monkeypatch):
    from longhand.capture.bytecode.entry import entries

    monkeypatch.delenv("LONGHAND_DEBUG", raising=False)
    real = entries.capture_frame
    from longhand.capture.bytecode.entry import captured

    def fails(*_, **__):
        raise KeyError("a slot")

    monkeypatch.setattr(captured.Attempt, "run", fails)
    assert real is entries.capture_frame
    module = Inner().eval()
    with torch.no_grad():
        with pytest.warns(EagerWarning, match="capture itself failed: KeyError") as told:
            torch.testing.assert_close(compiled(module)(torch.ones(2, 4)), module(torch.ones(2, 4)))
        assert len(told) == 1
        longhand.reset()
        with pytest.raises(longhand.errors.CaptureError, match="capture itself failed"):
            compiled(module, options={"strict": True})(torch.ones(2, 4))


def test_a_transform_or_a_mode_around_a_call_is_told_and_forgotten_after_it(graphs):
    module = Inner().eval()
    run = compiled(module)
    x = torch.randn(3, 4)
    with torch.no_grad():
        with pytest.warns(EagerWarning, match="torch.func is running"):
            torch.testing.assert_close(torch.vmap(run)(x), torch.vmap(module)(x))
        with pytest.warns(EagerWarning, match="torch function mode"), torch.device("cpu"):
            torch.testing.assert_close(run(x), module(x))
        assert not graphs
        torch.testing.assert_close(run(x), module(x))
    assert len(graphs) == 1


def scaled(x):
    return torch.softmax(x * 3, dim=-1)


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("units") / "generated_here" / "scaled"
    longhand.generate(scaled, (torch.ones(2, 3),), out=folder)
    return folder


@pytest.mark.parametrize("how", ["load", "package"])
def test_units_are_not_captured(unit, how, graphs, monkeypatch):
    if how == "load":
        function = longhand.load(unit)
    else:
        monkeypatch.syspath_prepend(str(unit.parent.parent))
        function = importlib.import_module("generated_here.scaled").scaled

    def around(x):
        return function(x * 2) + 1

    told = longhand.explain(around)(torch.randn(2, 3))
    assert any("scaled is called" in broken.reason for broken in told.breaks), told
    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(around)(x), scaled(x * 2) + 1)
    codes = [
        value.__code__
        for module in list(sys.modules.values())
        if str(getattr(module, "__file__", "")).startswith(str(unit))
        for value in vars(module).values()
        if hasattr(value, "__code__") and value.__code__.co_filename.startswith(str(unit))
    ]
    marks = [frame_hook().mark_of(code) for code in codes]
    assert codes and all(mark in (None, frame_hook().SKIP) or mark.__name__ == "uncaptured" for mark in marks)


def test_the_summary_at_exit(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, longhand\n"
        "def f(x, y):\n    x.mul_(2)\n    return x + y\n"
        "run = longhand.compile(f)\n"
        "for _ in range(3):\n    run(torch.ones(4), torch.ones(4))\n"
        "x = torch.ones(4)\nrun(x, x)\nz = torch.ones(5)\nrun(z[1:], z[:-1])\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "LONGHAND_LOGS": "calls", "LONGHAND_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert "longhand.calls:" in done.stderr and "calls in kernels" in done.stderr
    assert "1 call in eager: its inputs overlap in memory" in done.stderr, done.stderr


def test_explain_counts_calls():
    def writes(x, y):
        x.mul_(2)
        return x + y

    z = torch.ones(5)
    told = longhand.explain(writes)(z[1:], z[:-1])
    assert "1 call in eager: its inputs overlap in memory" in str(told)
    assert "1 call in kernels" in str(longhand.explain(scaled)(torch.ones(2, 3)))
    assert logging.getLogger("longhand.calls").level != logging.INFO
