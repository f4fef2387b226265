"""Tensors that Dynamo keeps in its graph, an optimizer's parameters, are written into however the step writes them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import longhand


def assigned(weight, rate):
    weight[:] = weight - rate * weight.grad


def with_an_operator(weight, rate):
    weight -= rate * weight.grad


def of_its_data(weight, rate):
    weight.data.view(-1)[0] += rate


def given_out(weight, rate):
    torch.sub(weight, rate * weight.grad, out=weight)


def of_a_view(weight, rate):
    weight.view(-1).sub_(rate * weight.grad)


@pytest.mark.parametrize("write", [assigned, with_an_operator, of_its_data, given_out, of_a_view])
def test_an_optimizer_of_the_users_own_steps(write):
    class Steps(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"rate": 0.5})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for weight in group["params"]:
                    write(weight, group["rate"])

    found = []
    for wrap in (lambda step: step, lambda step: longhand.compile(step, frontend="dynamo")):
        weights = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]
        step = wrap(Steps(weights).step)
        for number in range(2):
            for weight in weights:
                weight.grad = torch.full_like(weight, number + 1.0)
            step()
        found.append([weight.detach() for weight in weights])
    torch.testing.assert_close(*found)
