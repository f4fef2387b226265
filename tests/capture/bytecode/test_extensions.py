"""autograd.Function, custom ops, checkpoints, functional transforms, numpy: captured, against eager."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch.utils.checkpoint import checkpoint

from tests.capture.bytecode.behaviours import Behaviours, X

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


KNOWN = {}


@torch.compiler.allow_in_graph
def looked_up(pattern, x, *, scale=1, parts=()):
    """What it does beside computing is its own: no line of it is gone into."""
    print(end="")
    KNOWN.setdefault(f"{pattern}", len(KNOWN))
    return {"a": x.T, "b": x + 1}[pattern] * scale + len(parts), x.sum()


@behaviour((X,))
def calls_that_are_allowed_in_a_graph(x):
    one, total = looked_up("a", x, scale=2)
    return one, total + looked_up("b", x, parts=(1, 2))[0]


@behaviour((X.clone().requires_grad_(),))
def gradients_through_what_is_allowed_in_a_graph(x):
    return looked_up("a", x * 2)[0].sum()


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


@behaviour((X, X[0]), (X[:2], X[0]), breaks=0)
def vmap_of_vmap(x, y):
    def distance(a, b, *, power):
        return {"d": (a - b).abs().pow(power).sum(), "a": a}

    pairs = torch.vmap(torch.vmap(distance, in_dims=(None, 0)), in_dims=(0, None), out_dims={"d": 1, "a": 0})
    found = pairs(x, x * y, power=2)
    return found["d"], found["a"], torch.vmap(torch.dot, in_dims=(0, None))(x, y)


@behaviour((X,), (X.clone().requires_grad_(),), breaks=0)
def associative_scan_of_pairs(x):
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return associative_scan(combine, (x.sigmoid(), x), dim=1, combine_mode="generic")


@behaviour((X,), (X.clone().requires_grad_(),), breaks=0)
def the_scan_that_a_gpu_is_given(x):
    """What ``combine_mode="pointwise"``, which asks for a GPU, comes to."""
    combined = associative_scan_op(
        lambda a, b, c, d: [a * c, c * b + d], [x.sigmoid(), x], additional_inputs=()
    )
    return tuple(combined)


@behaviour((X, torch.tensor([True, False, True])), breaks=0)
def mask_of_positions(x, keep):
    def is_seen(query, key):
        return (key <= query) & keep[key]

    rows, cols = torch.arange(3), torch.arange(3)
    with TransformGetItemToIndex():
        mask = torch.vmap(torch.vmap(is_seen, in_dims=(None, 0)), in_dims=(0, None))(rows, cols)
    return torch.where(mask, x[:3, :3], 0.0)


@behaviour((X,), breaks=None)
def vmap_that_raises(x):
    try:
        torch.vmap(lambda row: row.sum().item())(x)
    except RuntimeError:
        x = x + 1
    return torch.vmap(torch.sum)(x) * 2


@behaviour((X,), breaks=None)
def vmap_and_grad(x):
    return torch.vmap(lambda row: row.sum())(x), torch.func.grad(lambda t: (t * t).sum())(x)


def test_vmap_in_a_process_that_has_not_used_it():
    text = """
import torch
from longhand.capture.bytecode.entry.entries import Capture
reasons = []
capture = Capture(lambda graph, _: graph.forward, listener=lambda event: reasons.append(event.record))
print(capture.call(lambda x: torch.vmap(torch.sum)(x), (torch.ones(2, 3),), {}), [*filter(None, reasons)])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "tensor([3., 3.]) []"


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
