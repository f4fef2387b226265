"""Composite ops that ask a number on their way: one call where their results look alike for any data, else refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import longhand
from longhand.capture import torch_private, whole_by_rule, whole_calls
from longhand.capture.frontends import export
from longhand.capture.frontends.finalize import finalize
from longhand.capture.whole_by_rule import whole
from longhand.options import Device, Target

X = torch.rand(3, 5)


def taken(function, *args, **kwargs):
    """What the rule makes of a call of fake tensors."""
    mode = torch_private.FakeTensorMode()
    fakes = [mode.from_tensor(one) if isinstance(one, torch.Tensor) else one for one in args]
    with mode:
        return whole(function, fakes, kwargs)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.cov, (X,)),
        (torch.Tensor.corrcoef, (X,)),
        (torch.quantile, (X, torch.tensor(0.5))),
        (torch.trapz, (X,)),
        (torch.ctc_loss, (torch.rand(4, 1, 3), torch.tensor([[1, 2]]), [4], [2], 0, 1)),
    ],
)
def test_results_look_like_eagers(function, args):
    made, expected = taken(function, *args), function(*args)
    assert (made.shape, made.dtype, made.stride()) == (expected.shape, expected.dtype, expected.stride())


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.nn.functional.one_hot, (torch.tensor([0, 2]),)),  # as many classes as the largest says
        (torch.tensor_split, (X, torch.tensor([1, 2]))),
        (torch.repeat_interleave, (X, torch.tensor([1, 2, 1]))),
        (torch.argwhere, (X,)),
        (torch.allclose, (X, X)),  # a number
        (torch.nn.functional.relu_, (X,)),  # it writes
        (torch.ravel, (X,)),  # a view
        (len, (X,)),
        (torch.ctc_loss, (torch.rand(4, 1, 3), *(torch.tensor([1]),) * 3)),  # its defaults are not ATen's
    ],
)
def test_what_the_data_tell_is_not_taken(function, args):
    assert taken(function, *args) is NotImplemented


def test_the_trial_draws_none_of_the_users_numbers():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    taken(torch.cov, torch.zeros(2, 7))
    assert torch.equal(torch.rand(3), expected)


def test_each_op_stands_for_one_of_torchs():
    taken(torch.cov, X)
    assert whole_calls.original(torch.ops.longhand_whole.cov_default.default) is torch.ops.aten.cov.default


def test_a_loss_of_lengths_is_one_call(tmp_path: Path) -> None:
    targets, given, wanted = torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2])

    def loss(x, given):
        return torch.ctc_loss(x.log_softmax(2) * 2, targets, given, wanted, 0, 1)

    x = torch.randn(4, 1, 3, requires_grad=True)
    longhand.generate(loss, (x, given), out=tmp_path / "unit", train=True)
    unit = longhand.load(tmp_path / "unit")
    for length in (given, given - 1):
        found, expected = (torch.autograd.grad(call(x, length).sum() ** 2, x)[0] for call in (unit, loss))
        torch.testing.assert_close(found, expected)


def test_a_call_that_the_trace_gave_up_is_none(monkeypatch):
    """torch 2.11 leaves it in the graph, before what stands for it."""

    def finish_with_it(traced, target):
        graph = traced.module.graph
        (x,) = (node for node in graph.nodes if node.op == "placeholder")
        with graph.inserting_after(x):
            graph.call_function(torch.ops.aten.equal.default, (x, x)).meta["val"] = None
        return finalize(traced, target)

    monkeypatch.setattr(export, "finalize", finish_with_it)
    captured = export.capture_export(lambda x: x * 2, (X,), target=Target(Device.CPU))
    assert [node.target for node in captured.graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.mul.Tensor
    ]


@pytest.fixture
def memory(monkeypatch):
    """The largest tensor of any trial."""
    largest = [0]

    class Watched(whole_by_rule._Sizes):
        def __torch_dispatch__(self, *call):
            made = super().__torch_dispatch__(*call)
            largest[0] = max(largest[0], whole_by_rule._most_bytes(made))
            return made

    monkeypatch.setattr(whole_by_rule, "_Sizes", Watched)
    monkeypatch.setattr(whole_by_rule, "_MOST_BYTES", 2**12)
    monkeypatch.setattr(whole_by_rule, "_known", {})
    return largest


def test_a_trial_makes_no_large_tensor(memory):
    assert taken(torch.cov, torch.zeros(20, 10)).shape == (20, 20)
    assert taken(torch.cov, torch.zeros(1000, 2)) is NotImplemented  # small itself: its result is not
    assert taken(torch.cov, torch.zeros(10, 2000)) is NotImplemented
    assert 0 < memory[0] <= 2**12
