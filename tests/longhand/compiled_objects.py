"""What the tests of compiled objects share: a module, a function, and how they are compiled and compared."""

import torch
from torch import nn

import longhand


def compiled(original, **options):
    """By longhand's own capture."""
    return longhand.compile(original, frontend="bytecode", **options)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("offset", torch.full((6,), 0.5))
        self.calls = 0

    def forward(self, x):
        return self.drop(torch.tanh(self.linear(x)) + self.offset)

    def weights(self):
        return self.linear.weight


def double_sine(x):
    """Twice."""
    return torch.sin(x) * 2


def agree(one, other, x=None):
    """Both give the same for a random input, or for this one."""
    x = torch.randn(3, 6) if x is None else x
    with torch.no_grad():
        torch.testing.assert_close(one(x), other(x))
