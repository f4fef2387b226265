"""Every case of training is right, or refused with a reason and run in eager: no gradient is wrong in silence."""

from __future__ import annotations

import functools
import logging
import re
import warnings

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

from longhand.capture.bytecode.entry.entries import EventKind
from longhand.compiled.backend import longhand_backend
from longhand.compiled.from_bytecode import captured
from longhand.verify.comparison import compare
from tests.autograd import (
    cases_between_calls,
    cases_of_backward,
    cases_of_flow,
    cases_of_late_writes,
    cases_of_memory,
    cases_of_steps,
)
from tests.autograd.cases import Cases, Mlp, leaf

CASES: Cases = Cases(
    {
        **cases_between_calls.case,
        **cases_of_backward.case,
        **cases_of_flow.case,
        **cases_of_late_writes.case,
        **cases_of_memory.case,
        **cases_of_steps.case,
    }
)


# Every third through Dynamo too, the others in the sweep: what is differentiated is the same.
THROUGH_DYNAMO = [
    pytest.param(name, marks=() if place % 3 == 0 else pytest.mark.slow) for place, name in enumerate(CASES)
]


@pytest.mark.parametrize("name", THROUGH_DYNAMO)
def test_it_is_as_in_eager_through_dynamo(name, caplog):
    case = CASES[name]
    torch.compiler.reset()
    reports = []
    backend = functools.partial(longhand_backend, report=reports.append)
    with caplog.at_level(logging.INFO, "longhand.eager"):
        compare_with_eager(case, lambda function: torch.compile(function, backend=backend))
    reasons = [report.reason for report in reports if report.reason]
    if case.refused is None:
        assert reports or case.breaks  # what breaks a graph of ours may break Dynamo's
        assert not reasons
        assert not calls_in_eager(caplog)
    else:
        assert any(re.search(case.refused, reason) for reason in reasons)


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_in_eager_through_our_own_capture(name, caplog, hook):
    case = CASES[name]
    reports, events = [], []
    with caplog.at_level(logging.INFO, "longhand.eager"):
        compare_with_eager(
            case, lambda function: captured(function, report=reports.append, listener=events.append)
        )
    breaks = [event.text for event in events if event.kind in (EventKind.BREAK, EventKind.SKIP)]
    reasons = [report.reason for report in reports if report.reason]
    if case.breaks is not None:
        assert any(case.breaks in text for text in breaks)
        return
    assert not breaks
    if case.refused is None or case.is_whole:
        assert reports
        assert not reasons
        assert not calls_in_eager(caplog)
    else:
        assert any(re.search(case.refused, reason) for reason in reasons)


def calls_in_eager(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "longhand.eager"]


def compare_with_eager(case, wrap):
    expected = case.run(lambda function: function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = case.run(wrap)
    assert found.keys() == expected.keys()
    if case.tolerance is None:
        exact = case.run(lambda function: function, in_float64=True)
        for key, wanted in expected.items():
            comparison = compare(key, found[key].detach(), wanted.detach(), exact[key].detach())
            assert comparison.is_right, comparison
        return
    for key, wanted in expected.items():
        assert_alike(key, found[key], wanted, case.tolerance)


def assert_alike(key, found, wanted, tolerance):
    assert (found is None) == (wanted is None), key
    if wanted is None:
        return
    assert (found.dtype, found.shape, found.layout) == (wanted.dtype, wanted.shape, wanted.layout), key
    if not wanted.numel():
        return
    if not (wanted.dtype.is_floating_point or wanted.dtype.is_complex):
        assert torch.equal(found, wanted), key
        return
    error = (found.detach() - wanted.detach()).abs().max().item()
    assert error <= tolerance * max(1.0, wanted.detach().abs().max().item()), key


def test_a_second_derivative_is_refused_with_what_to_do():
    x = leaf(4, 8)
    y = torch.compile(Mlp(), backend=longhand_backend)(x)
    with pytest.raises(RuntimeError, match="no second derivative: create_graph=True takes the eager model"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def through_dynamo(function):
    torch.compiler.reset()
    return torch.compile(function, backend=longhand_backend)


@pytest.mark.parametrize("wrap", [through_dynamo, captured])
def test_a_call_of_a_forward_derivative_runs_in_eager(wrap, hook, caplog):
    x, tangent = leaf(4, 8, grad=False), leaf(4, 8, grad=False, seed=3)

    def function(x):
        return (x * 2).sin() * x

    compiled = wrap(function)
    compiled(x)
    found = []
    for run in (function, compiled):
        with forward_ad.dual_level(), caplog.at_level(logging.INFO, "longhand.eager"):
            found.append(forward_ad.unpack_dual(run(forward_ad.make_dual(x, tangent))).tangent)
    assert_alike("tangent", found[1], found[0], 1e-6)
    assert any("forward-mode derivative" in record.getMessage() for record in caplog.records)


def test_our_own_capture_sees_hooks_on_modules_that_come_later(hook):
    model, x = Mlp(), leaf(4, 8)
    compiled = captured(model)
    before = compiled(x)
    doubles = model.a.register_forward_hook(lambda module, inputs, output: output * 2)
    assert_alike("with the hook", compiled(x), model(x), 1e-5)
    doubles.remove()
    assert_alike("without", compiled(x), before, 1e-5)
