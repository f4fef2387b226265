"""An op of ATen's that says nothing of its results is traced on zeros, and taken by other numbers.

torch before 2.12 has one in the derivative of index_fill: how many different places there are.
"""

from __future__ import annotations

import pytest
import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.autograd.derivative import DerivativeLooksAtData, Derivatives
from longhand.capture.traced_on_zeros import sizes_were_of_zeros
from longhand.options import Device

LIBRARY = torch.library.Library("aten", "FRAGMENT")
LIBRARY.define("_longhand_tests_distinct(Tensor x) -> Tensor")
LIBRARY.impl("_longhand_tests_distinct", torch.unique, "CPU")
LIBRARY.define("_longhand_tests_alike(Tensor x) -> Tensor")
LIBRARY.impl("_longhand_tests_alike", lambda x: x.flip(0), "CPU")
DISTINCT = torch.ops.aten._longhand_tests_distinct.default
ALIKE = torch.ops.aten._longhand_tests_alike.default


def traced(op: torch._ops.OpOverload, given: torch.Tensor) -> fx.Node:
    module = torch_private.make_fx(lambda x: op(x), tracing_mode="fake")(given)
    return next(node for node in module.graph.nodes if node.op == "call_function")


@pytest.mark.parametrize("given", [torch.tensor([3, 1, 3]), torch.rand(4), torch.tensor([True, False])])
def test_how_many_there_are_is_told_by_data(given):
    node = traced(DISTINCT, given)
    assert node.meta["val"].shape == (1,)  # as many as there are in zeros
    assert sizes_were_of_zeros(node)


def test_what_only_moves_elements_has_the_sizes_of_zeros():
    assert not sizes_were_of_zeros(traced(ALIKE, torch.rand(4)))


def test_what_torch_knows_is_not_run():
    assert not sizes_were_of_zeros(traced(torch.ops.aten.exp.default, torch.rand(4)))


class Filled(torch.autograd.Function):
    """index_fill by a number, with the derivative that torch 2.11 has."""

    @staticmethod
    def forward(ctx, x, at, value):
        ctx.save_for_backward(at)
        return x.index_fill(0, at, value)

    @staticmethod
    def backward(ctx, grad):
        (at,) = ctx.saved_tensors
        return grad.index_fill(0, at, 0), None, grad.index_select(0, DISTINCT(at)).sum()


LIBRARY.define("_longhand_tests_filled(Tensor x, Tensor at, Tensor value) -> Tensor")
LIBRARY.impl("_longhand_tests_filled", lambda x, at, value: x.index_fill(0, at, value), "CPU")
LIBRARY.impl("_longhand_tests_filled", lambda x, at, value: x.new_empty(x.shape), "Meta")
LIBRARY.impl("_longhand_tests_filled", Filled.apply, "Autograd")


def test_a_derivative_with_one_in_it_is_left_to_autograd():
    mode = torch_private.FakeTensorMode()
    with mode:
        args = (torch.empty(5), torch.empty(3, dtype=torch.int64), torch.empty(()))
    target = torch.ops.aten._longhand_tests_filled.default
    with pytest.raises(DerivativeLooksAtData):
        Derivatives(mode, Device.CPU).of(target, args, {}, (0, 2), (0,))
