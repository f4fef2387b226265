"""torch.autograd.Function in training: the user's backward is the derivative, in the graph of the calls around it."""

import functools
import logging

import pytest
import torch

import longhand
from longhand.capture.bytecode.entry.entries import EventKind
from longhand.compiled.backend import longhand_backend
from longhand.compiled.from_bytecode import captured
from tests.autograd import cases_of_refused_functions
from tests.autograd.cases import gradients, leaf
from tests.autograd.cases_of_functions import TimesFive
from tests.autograd.test_semantics import calls_in_eager, compare_with_eager

CASES = cases_of_refused_functions.case  # those of cases_of_functions are in it, too


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_in_eager(name, caplog, hook):
    case = CASES[name]
    reports, events = [], []
    with caplog.at_level(logging.INFO, "longhand.eager"):
        compare_with_eager(
            case, lambda function: captured(function, report=reports.append, listener=events.append)
        )
    breaks = [event.text for event in events if event.kind in (EventKind.BREAK, EventKind.SKIP)]
    if case.breaks is not None:
        assert any(case.breaks in text for text in breaks), breaks
        return
    assert not breaks
    assert reports
    assert not [report.reason for report in reports if report.reason]
    assert not calls_in_eager(caplog)


def function(x, w):
    return TimesFive.apply(x @ w).relu()


def step(model):
    x, w = leaf(4, 8), leaf(8, 8, seed=2)
    y = model(x, w)
    y.sum().backward()
    return {"y": y, **gradients(x=x, w=w)}


def test_dynamo_hands_it_over_as_an_operator_of_its_own_which_runs_in_eager():
    torch.compiler.reset()
    reports = []
    backend = functools.partial(longhand_backend, report=reports.append)
    found, wanted = step(torch.compile(function, backend=backend)), step(function)
    assert any("autograd_function_apply" in report.reason for report in reports)
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def test_a_unit_of_it_trains(tmp_path):
    args = (leaf(4, 8), leaf(8, 8, seed=2))
    folder = tmp_path / "unit"
    longhand.generate(function, args, out=folder, train=True, frontend="bytecode")
    found, wanted = step(longhand.load(folder)), step(function)
    assert all(torch.allclose(found[key], wanted[key], atol=1e-5) for key in wanted)
    assert "* 5" in "".join(path.read_text() for path in sorted(folder.glob("kernels/*.py")))


def test_a_result_is_called_after_its_function(tmp_path):
    args, folder = (leaf(4, 8), leaf(8, 8, seed=2)), tmp_path / "unit"
    longhand.generate(lambda x, w: TimesFive.apply(x) @ w, args, out=folder, train=True, frontend="bytecode")
    assert "timesfive = empty" in (folder / "model.py").read_text()


def test_another_derivative_is_another_unit():
    """Same calls, same forward: what is kept in the cache is told apart by the backward."""

    def made(factor):
        class Times(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.factor = factor
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.factor

        return lambda x: Times.apply(x * 3) + 1

    for factor in (5.0, 7.0):
        x = leaf(4, 8)
        longhand.compile(made(factor))(x).sum().backward()
        assert torch.equal(x.grad, torch.full((4, 8), 3 * factor))


def test_a_graph_that_fails_keeps_the_derivative(monkeypatch, hook):
    """What runs in eager where no unit can be made is the user's derivative, too."""
    monkeypatch.setattr("longhand.compiled.backend._compile", lambda *given: 1 / 0)
    with pytest.warns(UserWarning, match="in eager"):
        found = step(captured(function))
    wanted = step(function)
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)
