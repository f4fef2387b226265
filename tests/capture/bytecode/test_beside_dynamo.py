"""What torch's Dynamo leaves behind in a process where it has run costs longhand's own capture nothing."""

import torch
from torch import nn

from tests.capture.bytecode.running import Captured

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x.tanh() * self.scale


class MakesAModule(nn.Module):
    """As transformers look an activation up: by a name, which makes it anew in each call."""

    def forward(self, x):
        return Scaled(3.0)(x) + 1


def test_a_module_that_forward_makes_is_no_break(hook):
    torch.compile(nn.Tanh(), backend="eager")(X)
    assert nn.Module.__init__.__module__ == "torch._dynamo.mutation_guard"
    captured = Captured(MakesAModule())
    for _ in range(2):
        assert torch.equal(captured(X), X.tanh() * 3.0 + 1)
    assert captured.count("graph") == 1
    assert not captured.count("break") and not captured.count("skip")
