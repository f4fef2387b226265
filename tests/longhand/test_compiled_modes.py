"""Compiled objects where gradients, autocast and inference mode change between calls, and inside `disable`."""

import copy

import pytest
import torch

import longhand
from longhand.capture.bytecode.hook import frame_hook
from longhand.verify.comparison import compare
from tests.longhand.compiled_objects import Net, agree, compiled

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


def test_what_is_disabled_is_not_captured():
    seen = []

    def inner(x):
        seen.append(frame_hook().pause())
        return torch.sin(x) + 1

    @longhand.disable
    def outer(x, *, by=2):
        return inner(x) * by

    def function(x):
        return outer(torch.cos(x), by=3) - 1

    agree(compiled(function), function)
    agree(compiled(function), function)
    assert seen == [None] * 4

    @longhand.disable()
    def whole(x):
        return inner(x)

    agree(compiled(whole), whole)
    assert seen == [None] * 6


def test_gradients_and_autocast_change_between_calls():
    module = Net().eval()
    run = compiled(module)
    x = torch.randn(3, 6)
    agree(run, module, x)
    run(x).sum().backward()
    found = module.linear.weight.grad.clone()
    module.zero_grad()
    module(x).sum().backward()
    torch.testing.assert_close(found, module.linear.weight.grad)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert run.linear(x).dtype is torch.bfloat16
        ours, eager = run(x), module(x)
    with torch.no_grad():
        comparison = compare("result", ours, eager, copy.deepcopy(module).double()(x.double()))
    assert comparison.is_right, comparison
    agree(run, module, x)
    with torch.inference_mode():
        torch.testing.assert_close(run(x), module(x))
        assert run(x).is_inference()
    agree(run, module, x)
