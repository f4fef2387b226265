"""What a graph wrote into small inputs is put back where CPython runs the call again."""

import pytest
import torch
from torch.distributions import Normal

import longhand
from tests.capture.bytecode import program_checks as checks
from tests.capture.bytecode.running import Captured, assert_same, outcome

X = torch.linspace(-2, 2, 12).reshape(3, 4)
GOOD, BAD = X.abs() + 0.5, X
INSIDE, OUTSIDE = torch.tensor([1, 0]), torch.tensor([1, 9])


def counts_then_looks_up(ids, table, count):
    count.add_(ids.numel())
    try:
        return torch.nn.functional.embedding_bag(ids[None], table) * count
    except RuntimeError:
        return table * 0 - count


def looks_up_then_counts(ids, table, count):
    try:
        found = torch.nn.functional.embedding_bag(ids[None], table)
    except RuntimeError:
        count.mul_(2)
        return table.sum() + count
    count.add_(found.shape[0])
    return found * count


def check_calls(function, calls):
    """Each call against eager: results, random numbers, and what every argument holds; one graph, no break."""
    captured = Captured(function)
    for args in calls:
        mine = [argument.clone() for argument in args]
        theirs = [argument.clone() for argument in args]
        torch.manual_seed(1)
        expected, drawn = outcome(function, theirs), torch.rand(2)
        torch.manual_seed(1)
        assert_same(outcome(captured, mine), expected)
        assert torch.equal(torch.rand(2), drawn)
        assert_same(mine, theirs)
        assert [one._version for one in mine] == [one._version for one in theirs]
    assert captured.count("graph") == 1
    assert not [event.text for event in captured.events if event.kind.value in ("break", "skip")]


@pytest.mark.parametrize("function", [checks.checks_then_writes, checks.writes_then_checks])
def test_a_check_and_a_write(hook, function):
    check_calls(function, [(x, torch.zeros(4)) for x in (GOOD, BAD, GOOD, BAD)])


@pytest.mark.parametrize("function", [counts_then_looks_up, looks_up_then_counts])
def test_a_call_that_may_raise_in_a_try_block_and_a_write(hook, function):
    table = torch.arange(6.0).reshape(2, 3)
    check_calls(function, [(ids, table, torch.tensor(2.0)) for ids in (INSIDE, OUTSIDE, INSIDE)])


class Clamped(torch.nn.Module):
    """A table that is kept small, as Gemma 3n keeps its coefficients."""

    def __init__(self):
        super().__init__()
        self.bound = torch.nn.Parameter(torch.tensor([3.0, 0.5, -7.0]))

    def forward(self, ids, table):
        try:
            found = torch.nn.functional.embedding_bag(ids[None], table)
        except RuntimeError:
            found = table.sum(0)
        self.bound.data.clamp_(-1, 1)
        return found * self.bound


def test_a_parameter_is_put_back_too(hook):
    table = torch.arange(6.0).reshape(2, 3)
    for ids in (INSIDE, OUTSIDE):
        module, eager = Clamped(), Clamped()
        captured = Captured(module)
        for _ in range(2):
            assert_same(captured(ids, table).detach(), eager(ids, table).detach())
            assert torch.equal(module.bound, eager.bound) and module.bound._version == eager.bound._version
        assert not [event.text for event in captured.events if event.kind.value in ("break", "skip")]


def test_numbers_drawn_and_a_write_before_the_check(hook):
    check_calls(checks.draws_writes_and_checks, [(x, torch.zeros(4)) for x in (GOOD, BAD, GOOD)])


def test_a_batch_norm_and_a_distribution_train_in_one_graph(hook):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x, scale):
            return Normal(self.norm(x), scale, validate_args=True).rsample()

    def step(model, call, scale):
        x, scale = X.clone().requires_grad_(), scale.clone().requires_grad_()
        torch.manual_seed(3)
        result = outcome(lambda: call(x, scale).square().sum(), ())
        if result[0] == "value":
            result[1].backward()
        gradients = [x.grad, scale.grad, *(parameter.grad for parameter in model.parameters())]
        return result[0], [one.clone() for one in gradients if one is not None], list(model.buffers())

    torch.manual_seed(0)
    mine, theirs = Model(), Model()
    found = longhand.explain(Model())(X.clone().requires_grad_(), GOOD.clone().requires_grad_())
    assert "1 graph, 0 breaks" in str(found)
    compiled = longhand.compile(mine)
    for scale in (GOOD, BAD, GOOD, BAD, GOOD):
        got, expected = step(mine, compiled, scale), step(theirs, theirs, scale)
        assert got[0] == expected[0] == ("value" if scale is GOOD else "raises")
        for one, other in zip(got[1] + got[2], expected[1] + expected[2], strict=True):
            assert torch.allclose(one, other, atol=1e-5)


def normalizes_then_looks_up(x, mean, var, ids):
    y = torch.nn.functional.batch_norm(x, mean, var, None, None, True, 0.5)
    try:
        return y.sum() + torch.nn.functional.embedding_bag(ids[None], mean[:, None])
    except RuntimeError:
        return y * mean


def normalizes_by_torch_then_looks_up(x, mean, var, ids):
    y = torch.batch_norm(x, None, None, mean, var, True, 0.5, 1e-5, False)
    try:
        return y.sum() + torch.nn.functional.embedding_bag(ids[None], mean[:, None])
    except RuntimeError:
        return y * mean


@pytest.mark.parametrize("function", [normalizes_then_looks_up, normalizes_by_torch_then_looks_up])
def test_the_statistics_of_a_batch_norm_which_no_version_tells_of(hook, function):
    check_calls(function, [(X, torch.zeros(4), torch.ones(4), ids) for ids in (INSIDE, OUTSIDE, INSIDE)])


def test_a_tensor_saved_for_a_backward_pass_is_as_good_as_before_the_failed_call(hook):
    captured, state = Captured(checks.checks_then_writes), torch.ones(4)
    captured(GOOD, state)
    weight = torch.ones(4, requires_grad=True)
    product = weight * state  # its gradient reads state
    with pytest.raises(AssertionError):
        captured(BAD, state)
    product.sum().backward()
    assert torch.equal(weight.grad, torch.full((4,), 2.0))


def test_a_view_is_written_through_and_put_back(hook):
    f = checks.writes_through_a_view_and_checks
    captured, mine, theirs = Captured(f), torch.zeros(3, 4), torch.zeros(3, 4)
    for x in (GOOD, BAD, GOOD):
        assert_same(outcome(captured, (x, mine[1:])), outcome(f, (x, theirs[1:])))
        assert torch.equal(mine, theirs)


def test_tensors_of_inference_mode(hook):
    with torch.inference_mode():
        captured, mine, theirs = Captured(checks.writes_then_checks), torch.zeros(4), torch.zeros(4)
        for x in (GOOD, BAD, GOOD):
            assert_same(outcome(captured, (x, mine)), outcome(checks.writes_then_checks, (x, theirs)))
            assert torch.equal(mine, theirs)
