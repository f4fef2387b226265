"""Checks of values that raise or do nothing are no graph breaks, and raise what eager raises, when it does."""

import pytest
import torch
from torch.distributions import Normal

import longhand
from longhand.errors import GraphBreakError
from tests.capture.bytecode import program_checks as checks
from tests.capture.bytecode.running import Captured, assert_same, outcome

X = torch.linspace(-2, 2, 12).reshape(3, 4)
GOOD, BAD = X.abs() + 0.5, X


@pytest.fixture(autouse=True)
def _validation():
    """torch.distributions checks its arguments: a test that used torch.compile has ended that for the process."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(True)
    yield
    torch.distributions.Distribution.set_default_validate_args(before)


def breaks(captured):
    return [event.text for event in captured.events if event.kind.value in ("break", "skip")]


@pytest.mark.parametrize(
    "function",
    [
        checks.normal,
        checks.categorical,
        checks.asserts,
        checks.raises_if_any,
        checks.asserts_by_torch,
        checks.checks_all_by_torch,
        checks.checks_all_with_a_message,
        checks.in_a_helper,
        checks.with_cleanup,
        checks.under_a_manager_of_torch,
    ],
)
def test_a_check_is_no_break_and_raises_as_in_eager(hook, function):
    captured = Captured(function)
    for x in (GOOD, BAD, GOOD, BAD, GOOD):
        torch.manual_seed(1)
        expected, after = outcome(function, (x,)), torch.rand(3)
        torch.manual_seed(1)
        assert_same(outcome(captured, (x,)), expected)
        assert torch.equal(torch.rand(3), after)  # what was drawn for nothing is put back
    assert not breaks(captured)
    assert captured.count("graph") == 1


def test_effects_before_the_check_happen_once_and_those_behind_it_do_not(hook):
    def f(x, seen):
        seen.append("before")
        if not (x > 0).all():
            raise ValueError("negative")
        seen.append("behind")
        return x * 2

    captured = Captured(f)
    seen = []
    captured(GOOD, seen)
    with pytest.raises(ValueError, match="negative"):
        captured(BAD, seen)
    assert seen == ["before", "behind", "before"]
    assert not breaks(captured)


@pytest.mark.parametrize(
    "function",
    [checks.catches, checks.swallows, checks.returns_in_finally, checks.decides, checks.raises_either_way],
)
def test_what_the_code_goes_on_with_is_a_break(hook, function):
    captured = Captured(function)
    for x in (GOOD, BAD, GOOD):
        assert_same(outcome(captured, (x,)), outcome(function, (x,)))
    assert any("depends on a tensor's values" in text or "class" in text for text in breaks(captured))


def test_a_check_and_a_large_input_that_is_written_to_are_not_in_one_graph(hook):
    captured = Captured(checks.writes_then_checks)
    for x in (GOOD.min(), BAD.min(), GOOD.max()):
        mine, theirs = torch.zeros(2**18 + 1), torch.zeros(2**18 + 1)
        assert_same(outcome(captured, (x, mine)), outcome(checks.writes_then_checks, (x, theirs)))
        assert torch.equal(mine, theirs)
    assert any("a check of values may fail, and an input is written to" in text for text in breaks(captured))


def test_gradients_flow_past_a_check(hook):
    def step(function):
        m, s = X.clone().requires_grad_(), GOOD.clone().requires_grad_()
        torch.manual_seed(2)
        y = function(m, s)
        y.square().sum().backward()
        return y.detach(), m.grad, s.grad

    def sampled(m, s):
        return Normal(m, s).rsample() * 2

    found = longhand.explain(sampled)(X.clone().requires_grad_(), GOOD.clone().requires_grad_())
    assert "1 graph, 0 breaks" in str(found)
    for mine, theirs in zip(step(longhand.compile(sampled)), step(sampled), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize("function", [checks.checks_all_by_torch, checks.checks_all_with_a_message])
def test_a_check_of_all_values_runs_in_kernels(function):
    assert "1 call in kernels" in str(longhand.explain(function)(GOOD))


@pytest.mark.parametrize("x", [GOOD, GOOD > 0])
def test_a_check_of_something_else_is_eagers(hook, x):
    assert_same(
        outcome(Captured(checks.checks_something_else), (x,)), outcome(checks.checks_something_else, (x,))
    )


def test_a_unit_has_no_such_check_and_the_break_says_what_to_do(tmp_path):
    with pytest.raises(GraphBreakError, match=r"validate_args=False.*set_default_validate_args\(False\)"):
        longhand.generate(checks.normal, (GOOD,), out=tmp_path / "unit", frontend="bytecode")
    assert not (tmp_path / "unit").exists()
