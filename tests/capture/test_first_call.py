"""What only a first call does is no graph break: it is done on a copy, which is captured then."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

from longhand.capture.frontends.bytecode import capture_bytecode
from longhand.errors import GraphBreakError
from longhand.options import Device, Target

LOCK = threading.Lock()
CPU = Target(Device.CPU)


class Hooked(nn.Module):
    """Installs a hook on itself when it is first called, as transformers' models do to collect hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.is_hooked = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.is_hooked:
            with LOCK:
                self.linear.register_forward_hook(lambda module, args, output: output * 2)
                self.is_hooked = True
        return self.norm(self.linear(x))


class Keeping(Hooked):
    """Keeps a tensor of its first call, which a second call reads."""

    kept: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kept is None:
            with LOCK:
                self.kept = x.mean(0)
        return self.linear(x) + self.kept


class Breaking(Hooked):
    """Is no graph, however often it is called."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with LOCK:
            x = x + 1
        return super().forward(x)


@pytest.mark.parametrize("train", [False, True])
def test_it_is_one_graph_and_the_model_stays_as_it_was(train: bool) -> None:
    torch.manual_seed(0)
    model, x = Hooked().train(train), torch.randn(3, 4)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    graph = capture_bytecode(model, (x,), target=CPU, train=train)
    assert not model.is_hooked and not model.linear._forward_hooks
    assert torch.equal(torch.get_rng_state(), random)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert any("mul" in name for name in names), "the hook's product"


@pytest.mark.parametrize("make", [Keeping, Breaking])
def test_what_a_second_call_does_otherwise_or_breaks_again_is_told(make: Any) -> None:
    with pytest.raises(GraphBreakError, match="lock"):
        capture_bytecode(make(), (torch.randn(3, 4),), target=CPU)
