"""autograd.Function, custom ops, checkpoints, functional transforms, numpy: captured, against eager."""

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.capture.bytecode.behaviours import Behaviours, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,), breaks=None)
def numpy_on_tensors(x):
    a = x.numpy()
    b = np.sin(a).sum()
    return torch.from_numpy(a * 2), float(b), x * 2


@behaviour((X, np.ones(3), np.float32(2.0)), breaks=None)
def numpy_arguments(x, a, s):
    return x * 2, a + 1, s * 2, x.sum() * float(s)


@behaviour((X,), breaks=None)
def numpy_scalars(x):
    n = np.int64(3)
    return x * int(n), np.prod([2, 3]), x.reshape(tuple(np.array([2, -1]).tolist())), np.pi * x


def relu_block(x, w):
    return torch.relu(x @ w)


@behaviour((X.clone().requires_grad_(), torch.ones(4, 4)), breaks=None)
def checkpointed(x, w):
    return checkpoint(relu_block, x, w, use_reentrant=False) + 1


@torch.library.custom_op("longhand_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, k: float) -> torch.Tensor:
    return x.clone() * k


@scaled.register_fake
def _scaled_fake(x, k):
    return torch.empty_like(x)


@behaviour((X, 2.0))
def custom_ops(x, k):
    return scaled(x, k) + 1, torch.ops.longhand_tests.scaled(x, 3.0)


@torch.library.custom_op("longhand_tests::add_one_", mutates_args=("x",))
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


@behaviour((X,), breaks=None)
def mutating_custom_ops(x):
    y = x * 1
    add_one_(y)
    add_one_(x)
    return y, x * 2


@torch.library.custom_op("longhand_tests::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@behaviour((X,), breaks=None)
def custom_ops_without_fake(x):
    return no_fake(x) * 2


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > ctx.low), None


@behaviour((X.clone().requires_grad_(), 0.1), (X, 0.1), breaks=None)
def autograd_function_and_gradient(x, low):
    y = Clamp.apply(x, low)
    return y * 2


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


@behaviour((X,), (X.clone().requires_grad_(),), breaks=None)
def autograd_function_with_setup(x):
    return Exp.apply(x) + 1


@behaviour((X,), breaks=None)
def vmap_and_grad(x):
    return torch.vmap(lambda row: row.sum())(x), torch.func.grad(lambda t: (t * t).sum())(x)


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
