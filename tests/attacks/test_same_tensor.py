"""The example call gives one tensor twice: the unit reads every argument all the same, and verify would see it."""

import pytest
import torch
from torch import nn

import longhand
from longhand.factory import Call
from longhand.verify.eager_check import compare_whole
from longhand.verify.original import told_apart


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


def of_list(tensors, others):
    return tensors[0] * 2 + tensors[1] - others["a"] / 4


class Biased(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x, weight):
        return x * self.weight + weight


def calls():
    x = torch.randn(4, 4)
    yield "three arguments", attention, (x, x, x)
    yield "a list and a dict", of_list, ([x, x], {"a": x})
    biased = Biased().eval()
    yield "a weight", biased, (torch.randn(2, 4), biased.weight)


@pytest.mark.parametrize("frontend", ["export", "bytecode"])
@pytest.mark.parametrize("name", [name for name, *_ in calls()])
def test_arguments_that_were_one_tensor(name, frontend, tmp_path, hook):
    model, args = next((model, args) for other, model, args in calls() if other == name)
    with torch.no_grad():
        longhand.generate(model, args, out=tmp_path / "unit", device="cpu", frontend=frontend)
        unit = longhand.load(tmp_path / "unit")
        if isinstance(model, nn.Module):
            unit = unit()
            unit.load_state_dict(model.state_dict())
        other = torch.utils._pytree.tree_map(torch.randn_like, args)
        torch.testing.assert_close(unit(*other), model(*other))
        torch.testing.assert_close(unit(*args), model(*args))


def test_verify_would_see_it():
    """A unit that takes its first argument for both."""
    x = torch.randn(4, 4)
    call = Call(lambda a, b: a - b, (x, x), {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longhand.verify.eager_check.read_lock", lambda folder: {})
        wrong = compare_whole(None, lambda a, b: a - a, call)
        right = compare_whole(None, lambda a, b: a - b, call)
    assert not all(one.is_right for one in wrong) and all(one.is_right for one in right)


@pytest.mark.parametrize("tensor", [torch.ones(3), torch.arange(4), torch.randn(2, 3).t(), torch.tensor(2.0)])
def test_the_second_is_another_of_the_same_kind(tensor):
    first, second = told_apart(Call(None, (tensor, tensor), {})).args
    assert first is tensor and second is not tensor and not torch.equal(first, second)
    assert (second.shape, second.dtype, second.stride()) == (tensor.shape, tensor.dtype, tensor.stride())
