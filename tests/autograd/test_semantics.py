"""Every case of training is right, or refused with a reason and run in eager: no gradient is wrong in silence."""

from __future__ import annotations

import functools
import logging
import warnings

import pytest
import torch

from longhand.backend import longhand_backend
from longhand.capture.bytecode.entries import EventKind
from longhand.comparison import compare
from longhand.from_bytecode import captured
from tests.autograd import cases_of_flow, cases_of_memory, cases_of_steps
from tests.autograd.cases import Cases, Mlp, leaf

CASES: Cases = Cases({**cases_of_flow.case, **cases_of_memory.case, **cases_of_steps.case})


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_in_eager_through_dynamo(name, caplog):
    case = CASES[name]
    torch.compiler.reset()
    reports = []
    backend = functools.partial(longhand_backend, report=reports.append)
    with caplog.at_level(logging.INFO, "longhand.eager"):
        compare_with_eager(case, lambda function: torch.compile(function, backend=backend))
    reasons = [report.reason for report in reports if report.reason]
    if case.refused is None:
        assert reports
        assert not reasons
        assert not caplog.records, "a call ran in eager"
    else:
        assert any(case.refused in reason for reason in reasons)


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
    if case.refused is None:
        assert reports
        assert not reasons
        assert not caplog.records, "a call ran in eager"
    else:
        assert any(case.refused in reason for reason in reasons)


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
