"""Parameters that are written under no_grad before anything else: a graph of their own, and eager's gradients."""

import copy
import warnings

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import EagerWarning


class Clamped(nn.Module):
    """As models that learn a temperature, or scale their weights down in each step."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.tensor(5.0))
        self.rows = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        with torch.no_grad():
            self.scale.clamp_(max=4.6)
            self.rows[0].mul_(0.5)
        return (self.linear(x).tanh() @ self.rows * self.scale).sum()


def steps(module, call, inputs, optimizer):
    """The losses, parameters and gradients of some training steps."""
    found = []
    for x in inputs:
        optimizer.zero_grad()
        loss = call(x)
        loss.backward()
        found += [loss.detach().clone(), *(p.grad.clone() for p in module.parameters())]
        optimizer.step()
        found += [p.detach().clone() for p in module.parameters()]
    return found


class Between(Clamped):
    """Gemma 3n clamps each layer's coefficients just before it takes them."""

    def forward(self, x):
        y = self.linear(x).tanh()
        self.rows.data.clamp_(-0.3, 0.3)
        y = y @ self.rows
        with torch.no_grad():
            self.scale.clamp_(max=4.6)
        return (y * self.scale).sum()


@pytest.mark.parametrize("backend", ["bytecode", "dynamo"])
@pytest.mark.parametrize("kind", [Clamped, Between])
def test_training_steps_are_eagers_and_run_in_kernels(kind, backend):
    torch.manual_seed(0)
    torch.compiler.reset()
    module, inputs = kind(), [torch.randn(3, 4) for _ in range(3)]
    other = copy.deepcopy(module)
    compiled = longhand.compile(other) if backend == "bytecode" else torch.compile(other, backend="longhand")
    expected = steps(module, module, inputs, torch.optim.SGD(module.parameters(), lr=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        found = steps(other, compiled, inputs, torch.optim.SGD(other.parameters(), lr=0.1))
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two)


class Returned(Clamped):
    """What is written is used as a value besides."""

    def forward(self, x):
        with torch.no_grad():
            scale = self.scale.clamp_(max=4.6)
        return (self.linear(x) * scale).sum()


class Later(Clamped):
    """The write comes after a use."""

    def forward(self, x):
        y = self.linear(x) * self.scale.exp()
        with torch.no_grad():
            self.rows.mul_(2)
        return (y @ self.rows).sum()


class LaterThroughData(Clamped):
    """The write comes after a use, which autograd is not told of: its derivative takes the new elements."""

    def forward(self, x):
        y = self.linear(x) @ self.rows.exp()
        self.rows.data.clamp_(-0.3, 0.3)
        return (y @ self.rows).sum()


class BesideItself(Clamped):
    """What is written is read before under another name."""

    def __init__(self):
        super().__init__()
        self.beside = nn.Parameter(self.rows.data[1:])

    def forward(self, x):
        y = self.linear(x).tanh() @ self.beside.sum(0)
        self.rows.data.clamp_(-0.3, 0.3)
        return y.sum() + (x @ self.rows).sum()


class BetweenOnce(Clamped):
    """Done again it leaves something else."""

    def forward(self, x):
        y = self.linear(x).tanh()
        self.rows.data.mul_(0.5)
        return (y @ self.rows).sum()


@pytest.mark.parametrize("kind", [Returned, Later, LaterThroughData, BesideItself, BetweenOnce])
@pytest.mark.filterwarnings("ignore:longhand")
def test_other_writes_are_right_however_they_run(kind):
    torch.manual_seed(0)
    module, inputs = kind(), [torch.randn(3, 4) for _ in range(2)]
    other = copy.deepcopy(module)
    expected = steps_or_error(module, module, inputs)
    found = steps_or_error(other, longhand.compile(other), inputs)
    assert type(found) is type(expected)
    if isinstance(expected, list):
        for one, two in zip(found, expected, strict=True):
            torch.testing.assert_close(one, two)


def steps_or_error(module, call, inputs):
    """What the steps give, or the kind of exception."""
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    try:
        return steps(module, call, inputs, torch.optim.SGD(module.parameters(), lr=0.1, maximize=False))
    except (RuntimeError, AttributeError) as error:
        return error


class Counted(Clamped):
    """Before anything else it also counts its calls; what comes after may raise."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n_calls", torch.zeros(3))

    def forward(self, x):
        with torch.no_grad():
            self.scale.clamp_(max=4.6)
            self.n_calls.add_(1)
        return (torch.linalg.cholesky(x) * self.scale).sum()


def test_a_call_that_raises_leaves_what_eager_leaves():
    torch.manual_seed(0)
    module = Counted()
    other = copy.deepcopy(module)
    compiled = longhand.compile(other)
    for x in (torch.eye(3), -torch.eye(3), torch.eye(3)):
        found = []
        for call in (module, compiled):
            try:
                found.append(call(x).detach())
            except torch.linalg.LinAlgError:
                found.append(None)
        assert (found[0] is None) == (found[1] is None)
        assert torch.equal(other.n_calls, module.n_calls) and torch.equal(other.scale, module.scale)
