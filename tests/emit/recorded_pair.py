"""A net whose steps are recorded by stand-ins for CUDA, which compute where a graph would replay.

They are as unkind as a pool of memory may be: before a replay writes, everything that other recordings made, and that
the recorder may overwrite, is filled with NaN.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from longhand.emit.unit.templates import write_runtime

N = 24  # more bytes than the fixture calls small


class Pool:
    """What stand-ins made, to be written over."""

    def __init__(self) -> None:
        self.graphs: list[StandInGraph] = []
        self.held: list[torch.Tensor] = []  # weights and arguments, so that nothing else comes to lie there
        self.results: list[torch.Tensor] = []  # of the forward pass that ran last

    @property
    def outside(self) -> set[int]:
        """Where weights and arguments lie."""
        return {one.data_ptr() for one in self.held}

    def captured(self, call: Callable[[], Any], pool: Any, device: Any) -> tuple[StandInGraph, Any]:
        """As runtime.py's: nothing that was there before is changed."""
        made = call()
        self.graphs.append(StandInGraph(self, call, made, pool))
        return self.graphs[-1], made

    def spoil(self, handle: object, kept: list[torch.Tensor]) -> None:
        """Fills what is neither outside nor kept with NaN: recordings of one pool share their memory."""
        keep = self.outside | {one.data_ptr() for one in kept}
        for graph in self.graphs:
            for tensor in graph.made if graph.handle is handle else ():
                if tensor.data_ptr() not in keep:
                    tensor.fill_(torch.nan)


class StandInGraph:
    """Replays by computing again, into the memory of the first results."""

    def __init__(self, pool: Pool, call: Callable[[], Any], made: Any, handle: object) -> None:
        self.pool = pool
        self.handle = handle
        self.call = call
        self.is_forward = isinstance(made, tuple)
        self.made = flat(made)
        self.results = flat(made[1]) if self.is_forward else []
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        with torch.no_grad():
            fresh = self.call()
            copies = [one.clone() for one in flat(fresh)]
            self.pool.spoil(self.handle, [] if self.is_forward else self.pool.results)
            for memory, copied in zip(self.made, copies, strict=True):
                if memory.data_ptr() not in self.pool.outside:
                    memory.copy_(copied)
        if self.is_forward:
            self.pool.results = self.results


def flat(made: Any) -> list[torch.Tensor]:
    if isinstance(made, torch.Tensor):
        return [made]
    if hasattr(made, "lent"):
        made = [*(tensor for tensor in made.lent.values()), *(buffer for buffer, _ in made.gathered.values())]
    return [one for part in made for one in flat(part)]


class Net(nn.Module):
    """tanh(x @ weight) and the mean of its squares, as a unit has it."""

    def __init__(self, runtime: Any) -> None:
        super().__init__()
        self.inner = runtime.Weights(weight=(N, N))
        self.requires_grad_()
        torch.manual_seed(0)
        nn.init.normal_(self.inner.weight, std=0.2)
        self.runs = self.backward_runs = 0
        self._graph = runtime.TrainingGraph(net_forward, net_backward, self, mutates=())

    def forward(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            sys.modules[type(self._graph).__module__].check_weights(self, x.device)
        return NetFunction.apply(self, x, *self.parameters())


class NetFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, model: Net, x: torch.Tensor, *parameters: torch.Tensor) -> Any:
        return model._graph.forward(ctx, x)

    @staticmethod
    def backward(ctx: Any, d_y: torch.Tensor, d_mean: torch.Tensor) -> Any:
        return None, *ctx.step.backward(ctx, d_y.contiguous(), d_mean.contiguous())


def net_forward(model: Net, x: torch.Tensor) -> Any:
    model.runs += 1
    y = torch.tanh(x @ model.inner.weight)
    # A tensor that only the recording has, a weight, an argument and a result.
    return (y, y.square().mean()), [y.square(), model.inner.weight, x, y]


def net_backward(model: Net, saved: list[torch.Tensor], d_y: torch.Tensor, d_mean: torch.Tensor) -> Any:
    square, weight, x, y = saved  # left as it is: the stand-in for a recording comes again
    d_tanh = (d_y + d_mean * y * 2 / y.numel()) * (1 - square)
    return d_tanh @ weight.t(), x.t() @ d_tanh


def runtime_on_stand_ins(folder: Path, monkeypatch: pytest.MonkeyPatch, pool: Pool) -> ModuleType:
    """The runtime.py of a unit, written to a folder, for which stand-ins are CUDA."""
    path = folder / "runtime.py"
    path.write_text(write_runtime(["TrainingGraph", "Weights", "check_weights"]))
    spec = importlib.util.spec_from_file_location("training_runtime", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "training_runtime", module)
    spec.loader.exec_module(module)

    def bytes_of(owner: Any) -> torch.Tensor:
        owner.__array_interface__ = owner.__cuda_array_interface__
        return torch.from_numpy(np.asarray(owner))

    own_copy = module.own_copy

    def copied(arg: Any) -> Any:
        copy_of_it = own_copy(arg).copy_(arg)
        pool.held.append(copy_of_it)
        return copy_of_it

    monkeypatch.setattr(module, "own_copy", copied)
    monkeypatch.setattr(module, "captured", pool.captured)
    monkeypatch.setattr(module, "bytes_of", bytes_of)
    monkeypatch.setattr(module, "is_in_pool", lambda tensor: tensor.numel() > 0)
    monkeypatch.setattr(module, "refusal", lambda tensors: None)
    monkeypatch.setattr(module, "segments_of_memory", list)
    monkeypatch.setattr(module, "SMALL", 64)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: object())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    return module


class Pair:
    """A recorded net, and what eager computes."""

    def __init__(self, runtime: Any, pool: Pool) -> None:
        self.net = Net(runtime)
        self.pool = pool
        self.zeros: dict[torch.Size, torch.Tensor] = {}
        self.note()

    def note(self) -> None:
        self.pool.held.append(self.net.inner.weight.detach())

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.pool.held.append(x)
        y, mean = self.net(x)
        with torch.no_grad():
            wanted = torch.tanh(x @ self.net.inner.weight)
        torch.testing.assert_close(y.detach(), wanted)
        torch.testing.assert_close(mean.detach(), wanted.square().mean())
        return y, mean

    def gradient(self, x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        """Of mean() with respect to the weight."""
        own = (self.net.inner.weight if weight is None else weight).detach().clone().requires_grad_()
        torch.tanh(x @ own).square().mean().backward()
        assert own.grad is not None
        return own.grad

    def check(self, x: torch.Tensor, times: float = 1.0) -> None:
        torch.testing.assert_close(self.net.inner.weight.grad, times * self.gradient(x))

    def step(self, x: torch.Tensor) -> None:
        """Forward, backward, an update and zero_grad.

        The result that nobody reads is given a gradient of zeros that lies still, as one of CUDA's allocator does:
        autograd's own lies where malloc pleases.
        """
        y, mean = self(x)
        d_y = self.zeros.setdefault(y.shape, torch.zeros_like(y))
        torch.autograd.backward((y, mean), (d_y, torch.ones_like(mean)))
        self.check(x)
        with torch.no_grad():
            self.net.inner.weight -= 0.1 * self.net.inner.weight.grad
        self.net.zero_grad(set_to_none=True)

    @property
    def replays(self) -> list[int]:
        return [graph.replays for graph in self.pool.graphs]


def inputs(n_rows: int = 6, seed: int = 1) -> torch.Tensor:
    return torch.randn(n_rows, N, generator=torch.Generator().manual_seed(seed))
