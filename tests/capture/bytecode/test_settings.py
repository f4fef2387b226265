"""Autocast, gradients, randomness, generators of numbers and other settings, captured, against eager."""

import os
import random
import threading
import types

import numpy as np
import pytest
import torch

from longhand.capture.bytecode.entry.entries import Capture, EventKind, forget_all
from tests.capture.bytecode.behaviours import Behaviours, X, Y
from tests.capture.bytecode.running import Captured, check

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X, Y))
def autocast_block(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ y.T
    return a, x @ y.T, torch.is_autocast_enabled("cpu")


@torch.autocast("cpu", dtype=torch.bfloat16)
def autocast_helper(x, y):
    return x @ y.T


@behaviour((X, Y))
def autocast_decorator(x, y):
    return autocast_helper(x, y) + 1


@behaviour((X,), breaks=None)
def inference_mode_block(x):
    with torch.inference_mode():
        y = x * 2
    return y.is_inference(), x + 1


@behaviour((X.clone().requires_grad_(),), breaks=None)
def detach_and_requires_grad(x):
    y = x.detach() * 2
    z = (x * 2).detach()
    return y, z, y.requires_grad, (x * 3).requires_grad


@behaviour((X,), breaks=None)
def requires_grad_is_set(x):
    y = (x * 2).requires_grad_()
    z = (y * y).sum()
    return z, y.requires_grad


@behaviour((X.clone().requires_grad_(),))
def requires_grad_is_set_where_it_is(x):
    made = torch.zeros_like(x, requires_grad=True).requires_grad_()
    y = (x * 2).requires_grad_(True)
    z = x.detach().requires_grad_(False)
    return made * y + z, made.requires_grad, y.requires_grad, z.requires_grad


@behaviour((X.clone().requires_grad_(),), breaks=None)
def gradients_inside(x):
    y = (x * x).sum()
    (g,) = torch.autograd.grad(y, x)
    return g, y


@behaviour((X,), breaks=None)
def backward_inside(x):
    w = torch.ones(4, requires_grad=True)
    loss = (x * w).sum()
    loss.backward()
    return w.grad, loss


@behaviour((X,), breaks=None)
def generators_of_random_numbers(x):
    g = torch.Generator().manual_seed(5)
    return x + torch.randn(3, 4, generator=g).sum(), torch.rand(2, generator=g)


@behaviour((X,), breaks=None)
def manual_seed_inside(x):
    torch.manual_seed(7)
    return x + torch.rand(1), torch.randint(0, 10, (3,))


@behaviour((X,), breaks=None)
def python_random(x):
    random.seed(3)
    n = random.randint(1, 100)
    r = random.random()
    c = random.choice([1, 2, 3])
    return x * n + r + c, random.sample([1, 2, 3], 2)


@behaviour((X,), breaks=None)
def numpy_random(x):
    np.random.seed(3)
    return x * np.random.rand(), np.random.randint(5), x + 1


@behaviour((X,), breaks=None)
def no_grad_functions(x):
    @torch.no_grad()
    def inner(y):
        return y * 2, torch.is_grad_enabled()

    with torch.enable_grad():
        a = torch.is_grad_enabled()
    previous = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    b = torch.is_grad_enabled()
    torch.set_grad_enabled(previous)
    return inner(x), a, b


@behaviour((X,), breaks=None)
def default_dtype_is_changed(x):
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2)
    torch.set_default_dtype(previous)
    return y, torch.ones(2), x + 1


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)


@pytest.mark.parametrize(
    ("device", "n_graphs"),
    [
        (torch.device("cuda:1"), 1), ("cuda:1", 1), (1, 1),
        ("cuda", 2), (torch.device("cuda"), 2), (None, 2), (-1, 2),
    ],
)  # fmt: skip
def test_what_a_device_is_does_not_change(monkeypatch, device, n_graphs):
    """So transformers chooses the product of its experts. Which device is the current one may change: a break."""
    known = types.SimpleNamespace(major=9, minor=0, name="a GPU")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device=None: os.getpid() and known)

    def product(x):
        y = x * 2
        if torch.cuda.get_device_capability(device) >= (8, 0) and "GPU" in torch.cuda.get_device_name(device):
            return y @ x.T
        return y

    events = []
    forget_all()
    capture = Capture(lambda graph, _: graph.forward, listener=events.append)
    torch.testing.assert_close(capture.call(product, (X,), {}), (X * 2) @ X.T)
    forget_all()
    assert sum(event.kind is EventKind.GRAPH for event in events) == n_graphs


def is_recording() -> bool:
    """As transformers asks."""
    try:
        return torch.cuda.is_current_stream_capturing()
    except RuntimeError:  # a torch without CUDA
        return False


def sine_while_a_graph_is_recorded(x):
    return x.sin() if is_recording() else x.cos()


def test_whether_a_cuda_graph_is_recorded_is_asked_again(monkeypatch):
    state = threading.Lock()  # asked by a function of C, as CUDA is
    monkeypatch.setattr("torch.cuda.graphs._cuda_isCurrentStreamCapturing", state.locked)
    captured = Captured(sine_while_a_graph_is_recorded, fullgraph=True)
    for change in (state.acquire, state.release, state.acquire):
        assert torch.equal(captured(X), sine_while_a_graph_is_recorded(X))
        change()
    assert captured.count("graph") == 2 and not captured.count("break")


def test_without_cuda_the_question_is_what_it_is_in_eager(monkeypatch):
    def raises() -> bool:
        raise RuntimeError("no CUDA")

    monkeypatch.setattr("torch.cuda.graphs._cuda_isCurrentStreamCapturing", raises)
    captured = check(sine_while_a_graph_is_recorded, (X,))
    assert captured.count("graph") == 1 and not captured.count("break")
