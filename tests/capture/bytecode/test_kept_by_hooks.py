"""What hooks see: a value on the way is an intermediate result of autograd, as in eager, and no result of one call."""

import functools
import warnings

import pytest
import torch
from torch import nn

from longhand.capture.bytecode.entry.entries import Capture

X = torch.linspace(-2, 2, 8).reshape(2, 4)


class OneCall(torch.autograd.Function):
    """A graph as a unit is: all its results are autograd's of one call."""

    @staticmethod
    def forward(ctx, graph, *inputs):
        with torch.enable_grad():
            ctx.given = [one.detach().requires_grad_(one.requires_grad) for one in inputs]
            ctx.made = graph(*ctx.given)
        return tuple(one.detach() for one in ctx.made)

    @staticmethod
    def backward(ctx, *gradients):
        wanted = [one for one in ctx.given if one.requires_grad]
        flowing = [(one, d) for one, d in zip(ctx.made, gradients, strict=True) if one.requires_grad]
        made, d_made = zip(*flowing, strict=True)
        found = iter(torch.autograd.grad(made, wanted, d_made, retain_graph=True, allow_unused=True))
        return None, *(next(found) if one.requires_grad else None for one in ctx.given)


def captured(model, breaks):
    def backend(module, _):
        return functools.partial(OneCall.apply, module.forward)

    def told(event):
        if event.kind.value == "break":
            breaks.append(event.text)

    capture = Capture(backend, listener=told)
    return lambda *args: capture.call(model, args, {})


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Sequential(nn.Linear(5, 3), nn.Sigmoid()))


class Keeping:
    def __init__(self):
        self.kept = {}

    def __call__(self, module, args, result):
        self.kept["value"] = result

    def in_a_list(self, module, args, result):
        self.kept["value"] = [result][0]

    def argument(self, module, args):
        (self.kept["value"],) = args

    def twice(self, factor, module, args, result):
        self.kept["value"] = result * factor
        return self.kept["value"]


REGISTERED = {
    "object": lambda model, keeping: model[0].register_forward_hook(keeping),
    "method": lambda model, keeping: model[1].register_forward_hook(keeping.in_a_list),
    "of a part": lambda model, keeping: model[2][0].register_forward_hook(keeping),
    "before": lambda model, keeping: model[2][0].register_forward_pre_hook(keeping.argument),
    "partial": lambda model, keeping: model[1].register_forward_hook(functools.partial(keeping.twice, 2.0)),
}


def gradients(run, model, keeping):
    """What one step gives each kept value, asked for in both ways."""
    result = run(X)
    (asked,) = torch.autograd.grad(result.square().sum(), [keeping.kept["value"]], retain_graph=True)
    keeping.kept["value"].retain_grad()
    result.square().sum().backward()
    return [result, asked, keeping.kept["value"].grad, *(weight.grad for weight in model.parameters())]


@pytest.mark.parametrize("how", REGISTERED)
def test_a_kept_value_has_eagers_gradient(how):
    breaks, found = [], []
    for run_of in (lambda model: model, functools.partial(captured, breaks=breaks)):
        model, keeping = network(), Keeping()
        REGISTERED[how](model, keeping)
        run = run_of(model)
        for _ in range(2):
            model.zero_grad()
            found.append(gradients(run, model, keeping))
    assert any("a forward hook keeps a value that gradients flow through" in text for text in breaks)
    for expected, got in ((found[0], found[2]), (found[1], found[3])):
        for one, other in zip(expected, got, strict=True):
            torch.testing.assert_close(other, one)


def keeps_the_result(model, kept):
    model.register_forward_hook(lambda module, args, result: kept.append(result))


def keeps_numbers(model, kept):
    model[0].register_forward_hook(lambda module, args, result: kept.append(result.detach().mean()))


def changes_the_result(model, kept):
    model[0].register_forward_hook(lambda module, args, result: result * 2)


@pytest.mark.parametrize("register", [keeps_the_result, keeps_numbers, changes_the_result])
def test_hooks_that_keep_nothing_on_the_way_are_part_of_the_graph(register):
    model, breaks = network(), []
    register(model, [])
    captured(model, breaks)(X).sum().backward()
    assert not breaks and all(weight.grad is not None for weight in model.parameters())


def test_without_gradients_what_is_kept_is_a_result_like_any_other():
    model, keeping, breaks = network(), Keeping(), []
    model[0].register_forward_hook(keeping)
    with torch.no_grad():
        result = captured(model, breaks)(X)
    torch.testing.assert_close(result, model[2](model[1](keeping.kept["value"])))
    assert not breaks


def parts_of(gradients):
    return [None if one is None else one.clone() for one in gradients]


@pytest.mark.parametrize("has_run", [False, True])
def test_the_old_backward_hooks_see_the_last_op_of_eager(has_run):
    found = []
    for run_of in (lambda model: model, functools.partial(captured, breaks=[])):
        model, log = network(), []
        run = run_of(model)
        if has_run:
            run(X).sum().backward()
        handles = [
            part.register_backward_hook(
                lambda _, given, made: log.extend([*parts_of(given), *parts_of(made)])
            )
            for part in (model[2][0], model)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(X).sum().backward()
            for handle in handles:
                handle.remove()
            run(X).sum().backward()
        found.append([*log, *(weight.grad for weight in model.parameters())])
    assert len(found[0]) == len(found[1])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got, expected)
