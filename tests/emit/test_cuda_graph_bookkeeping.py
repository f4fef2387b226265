"""The bookkeeping of the CUDA-graph recorder, on the CPU: a stand-in for CUDA runs `launch` where a graph would replay.

What needs a GPU (capture, streams, random numbers) is in tests/gpu/test_cuda_graph.py.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from longhand.emit.unit.templates import write_runtime


class StandInGraph:
    """Replays by computing again into the memory of the first results."""

    def __init__(self, launch: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
        self.launch = launch
        self.inputs = inputs
        self.results: Any = None
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        own = self.results if isinstance(self.results, tuple) else (self.results,)
        fresh = self.launch(*self.inputs)
        for memory, result in zip(own, fresh if isinstance(fresh, tuple) else (fresh,), strict=True):
            if memory.data_ptr() != result.data_ptr():
                memory.copy_(result)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / "runtime.py"
    path.write_text(write_runtime(["CudaGraph"]))
    spec = importlib.util.spec_from_file_location("recorder_runtime", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def record(self: Any, args: Any, device: Any, is_copying: bool, candidates: list[Any]) -> None:
        inputs = tuple(module.own_copy(arg) for arg in args) if is_copying else args
        graph = StandInGraph(self.launch, inputs)
        # Recording executes nothing on a GPU: here it does, on copies.
        before = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in inputs]
        graph.results = self.launch(*inputs)
        for arg, old in zip(inputs, before, strict=True):
            if isinstance(arg, torch.Tensor):
                arg.copy_(old)
        candidates.append(module.Recording(graph, inputs, graph.results, is_copying))
        self.recordings.append(candidates[-1])

    def lend(self: Any, args: Any) -> Any:
        owners = {address: module.Owner(memory) for address, memory in self.memory.items()}
        self.owners = [module.weakref.ref(owner) for owner in owners.values()]
        for owner in owners.values():
            owner.__array_interface__ = owner.__cuda_array_interface__
        storages = {address: torch.from_numpy(np.asarray(owner)) for address, owner in owners.items()}
        return module.rebuild(self.results, args, storages)

    monkeypatch.setattr(module.CudaGraph, "record", record)
    monkeypatch.setattr(module.Recording, "lend_results", lend)
    monkeypatch.setattr(module, "refusal", lambda tensors: None)
    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    return module


def test_the_first_call_runs_and_the_second_is_recorded(runtime: Any) -> None:
    graph = runtime.CudaGraph(lambda x: x * 2)
    x = torch.empty(7)
    for number in range(5):
        x.fill_(number)
        assert torch.equal(graph(x), x * 2)
        assert len(graph.recordings) == min(number, 1)
    assert graph.recordings[0].graph.replays == 4


def test_held_results_stay_and_free_ones_are_used_again(runtime: Any) -> None:
    graph = runtime.CudaGraph(lambda x: x * 2)
    x = torch.empty(4, 3)
    held = []
    for number in range(9):
        x.fill_(number)
        held.append(graph(x)[1:].t())
    for number, result in enumerate(held):
        assert torch.equal(result, torch.full((3, 3), 2.0 * number))
    assert len(graph.recordings) == runtime.STAND_INS
    replays = sum(one.graph.replays for one in graph.recordings)
    held.clear()
    del result
    graph(x)
    assert sum(one.graph.replays for one in graph.recordings) == replays + 1


def test_an_earlier_recording_waits_for_results_of_later_ones(runtime: Any) -> None:
    graph = runtime.CudaGraph(lambda x: x * 2)
    small, large = torch.ones(3), torch.ones(5)
    for x in (small, small, large, large):
        graph(x)
    first, second = graph.recordings
    result = graph(large)
    assert second.is_in_use() and not first.is_in_use()
    graph(small)
    assert first.graph.replays == 1, "it would have overwritten what the later one lent"
    assert len(graph.recordings) == 3
    del result
    graph(small)
    assert first.graph.replays == 2


def test_inputs_at_new_addresses_are_copied_where_that_is_safe(
    runtime: Any, caplog: pytest.LogCaptureFixture
) -> None:
    xs = [torch.full((3,), float(number)) for number in range(20)]
    for mutates in (None, ()):
        graph = runtime.CudaGraph(lambda x: x * 2, mutates)
        with caplog.at_level(logging.WARNING):
            for x in xs:
                assert torch.equal(graph(x), x * 2)
        assert bool(graph.recordings) == (mutates is not None)
    assert caplog.text.count("new address in each call") == 1


def test_recorded_places_are_bounded_and_those_in_use_are_kept(runtime: Any) -> None:
    graph = runtime.CudaGraph(lambda x: x * 2, ())
    xs = [torch.full((3,), float(number)) for number in range(12)]
    held = []
    for x in xs:
        for _ in range(2):
            result = graph(x)
        held.append(result)
    for x, result in zip(xs, held, strict=True):
        assert torch.equal(result, x * 2)
    held.clear()
    del result
    for x in xs:
        for _ in range(2):
            graph(x)
    (known,) = graph.shapes.values()
    assert len(graph.recordings) == sum(map(len, [*known.recorded.values(), known.copying]))


def test_mutated_inputs_are_written_once_a_call(runtime: Any) -> None:
    def launch(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return cache * 2

    graph = runtime.CudaGraph(launch, (0,))
    cache, x = torch.zeros(5), torch.ones(5)
    caches = []
    for number in range(1, 30):
        if number > 5:
            caches.append(cache)
            cache = cache.clone()
        assert torch.equal(graph(cache, x), torch.full((5,), 2.0 * number))
        assert torch.equal(cache, torch.full((5,), float(number)))
    assert any(one.copies for one in graph.recordings)


def test_moved_weights_drop_the_recordings(runtime: Any) -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3), requires_grad=False)
            self.graph = runtime.CudaGraph(self.launch)

        def launch(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

    model = Scale()
    x = torch.ones(3)
    held = [model.graph(x) for _ in range(3)]
    model.weight = nn.Parameter(torch.full((3,), 5.0), requires_grad=False)
    for _ in range(3):
        assert torch.equal(model.graph(x), x * 5)
    assert all(torch.equal(result, x) for result in held)
    other = copy.deepcopy(model)
    assert other.graph.launch.__self__ is other and not other.graph.recordings


def test_results_may_be_inputs_and_share_memory(runtime: Any) -> None:
    def launch(x: torch.Tensor, n: int) -> tuple[torch.Tensor, ...]:
        y = x * n
        return x, x[...], x[1:], y, y[0], y.t()

    graph = runtime.CudaGraph(launch)
    memory = torch.randn(5, 4)
    for _ in range(4):
        x = memory[1:]
        same, seen, part, whole, row, turned = graph(x, 3)
        assert same is x
        assert seen is not x and seen.data_ptr() == x.data_ptr()
        assert (part.data_ptr(), part.shape) == (x[1:].data_ptr(), (3, 4))
        whole[0] = 7.0
        assert torch.equal(row, torch.full((4,), 7.0)) and torch.equal(turned, whole.t())
        assert torch.equal(whole[1:], x[1:] * 3)
        del same, seen, part, whole, row, turned


def test_refused_calls_run_and_say_why_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "runtime.py"
    path.write_text(write_runtime(["CudaGraph"]))
    space: dict[str, Any] = {"__name__": "refusing_runtime"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    graph = space["CudaGraph"](lambda x: x * 2)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert torch.equal(graph(torch.ones(2)), torch.full((2,), 2.0))
    assert caplog.text.count("not all on one CUDA device") == 1
