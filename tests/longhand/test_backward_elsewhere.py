"""A backward pass in another thread than its forward pass, which goes on with other layers' weights."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import longhand

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


class Block(nn.Module):
    """Its backward pass reads both weights, the second first."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = nn.Linear(6, 12)
        self.narrow = nn.Linear(12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(torch.tanh(self.widen(x)))


class CallsAtFirstProduct(TorchDispatchMode):
    """Calls a function in the midst of a backward pass: before it has read all weights."""

    def __init__(self, then: Any) -> None:
        super().__init__()
        self.then = then

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.then is not None and func is torch.ops.aten.mm.default:
            then, self.then = self.then, None
            then()
        return result


class Elsewhere(threading.Thread):
    """Goes backward, and halfway lets the thread that made the graph call something else."""

    def __init__(self, result: torch.Tensor) -> None:
        super().__init__()
        self.result = result
        self.is_halfway, self.goes_on = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with CallsAtFirstProduct(self._wait):
                self.result.sum().backward()
        except BaseException as error:
            self.error = error
        finally:
            self.is_halfway.set()

    def _wait(self) -> None:
        self.is_halfway.set()
        assert self.goes_on.wait(60)


def layers_of_one_unit(frontend: str) -> tuple[Any, Block, Block]:
    torch.manual_seed(3)
    blocks = Block(), Block()
    run = longhand.compile(lambda block, x: block(x), frontend=frontend)
    for block in blocks:
        run(block, torch.randn(4, 6, requires_grad=True)).sum().backward()
        block.zero_grad()
    return run, *blocks


def gradients_of(block: Block, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(block(x).sum(), [x, *block.parameters()])


@pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])
def test_other_weights_come_while_it_runs(frontend: str) -> None:
    run, one, other = layers_of_one_unit(frontend)
    x = torch.randn(4, 6, requires_grad=True)
    thread = Elsewhere(run(one, x))
    thread.start()
    assert thread.is_halfway.wait(60)
    beside = run(other, x)
    thread.goes_on.set()
    thread.join()
    assert thread.error is None
    expected = gradients_of(one, x)
    for found, one_of_eager in zip([x.grad, *(p.grad for p in one.parameters())], expected, strict=True):
        torch.testing.assert_close(found, one_of_eager)
    torch.testing.assert_close(beside, other(x))
