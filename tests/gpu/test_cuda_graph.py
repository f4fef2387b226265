"""The CUDA-graph recorder on a GPU: every result right whatever callers hold on to, and nothing copied."""

from __future__ import annotations

import copy
import gc
import logging
from typing import Any

import pytest
import torch
from torch import nn

from tests.gpu.units import make_unit

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_unit(tmp_path_factory.mktemp("graph") / "graph_unit")


class Mlp(nn.Module):
    """Enough kernels that intermediate values reuse each other's memory."""

    def __init__(self, runtime: Any, mutates: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.up = nn.Linear(64, 256, device="cuda").requires_grad_(False)
        self.down = nn.Linear(256, 64, device="cuda").requires_grad_(False)
        self.runs = 0
        self.graph = runtime.CudaGraph(self.launch, mutates)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.graph(x)

    def launch(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        for _ in range(3):
            x = x + self.down(torch.nn.functional.gelu(self.up(x)))
        return x


def expected(model: Mlp, x: torch.Tensor) -> torch.Tensor:
    return model.launch(x).clone()


def close(actual: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


def test_replays_at_one_address_without_new_memory(runtime: Any) -> None:
    model = Mlp(runtime)
    x = torch.empty(8, 64, device="cuda")
    addresses = set()
    for number in range(6):
        x.normal_()
        result = model(x)
        close(result, expected(model, x))
        if number > 1:
            addresses.add(result.data_ptr())
        del result
    assert len(model.graph.recordings) == 1
    assert len(addresses) == 1


def test_results_that_are_held_stay_as_they_are(runtime: Any) -> None:
    model = Mlp(runtime)
    x = torch.empty(8, 64, device="cuda")
    held = []
    for _ in range(10):
        x.normal_()
        result = model(x)
        held.append((result[2:4].t(), expected(model, x)[2:4].t()))  # only a view of a view lives on
        del result
    for actual, wanted in held:
        close(actual, wanted)
    assert len(model.graph.recordings) == runtime.STAND_INS
    held.clear()
    del actual, wanted
    runs = model.runs
    close(model(x), expected(model, x))
    assert model.runs == runs + 1, "a replay was possible again"


def test_garbage_that_holds_a_recording_does_not_end_another(runtime: Any) -> None:
    """Destroying a CUDA graph while another is recorded invalidates that: the garbage collector has to wait."""
    x = torch.randn(8, 64, device="cuda")
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()  # so that few objects are looked at, and all of them each time
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(5):
            model = Mlp(runtime)
            for _ in range(3):
                close(model(x), expected(model, x))
            assert len(model.graph.recordings) == 1
            circle: list[Any] = [model]
            circle.append(circle)
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def test_shapes_share_memory_and_do_not_disturb_each_other(runtime: Any) -> None:
    model = Mlp(runtime)
    xs = [torch.randn(rows, 64, device="cuda") for rows in (8, 300, 31)]
    held = []
    for _ in range(6):
        for x in xs:
            x.normal_()
            held.append((model(x), expected(model, x)))
        for actual, wanted in held:
            close(actual, wanted)
        del held[: len(held) // 2]


def test_new_addresses_are_right_and_copied_only_where_that_is_known_to_be_safe(runtime: Any) -> None:
    for mutates in (None, ()):
        model = Mlp(runtime, mutates)
        xs = [torch.randn(8, 64, device="cuda") for _ in range(20)]
        for x in xs:
            close(model(x), expected(model, x))
        assert any(one.copies for one in model.graph.recordings) == (mutates is not None)


def test_recent_addresses_come_back(runtime: Any) -> None:
    model = Mlp(runtime)
    xs = [torch.randn(8, 64, device="cuda") for _ in range(3)]
    for _ in range(4):
        for x in xs:
            close(model(x), expected(model, x))
    assert len(model.graph.recordings) == 3


def test_moved_weights_are_noticed(runtime: Any) -> None:
    model = Mlp(runtime)
    x = torch.randn(8, 64, device="cuda")
    held = [model(x) for _ in range(3)]
    wanted = held[0].clone()
    model.up.weight.mul_(1.5)  # in place: read where it lies
    close(model(x), expected(model, x))
    model.up.weight = nn.Parameter(torch.randn(256, 64, device="cuda"), requires_grad=False)
    for _ in range(3):
        close(model(x), expected(model, x))
    model.load_state_dict({key: value.clone() for key, value in model.state_dict().items()}, assign=True)
    for _ in range(3):
        close(model(x), expected(model, x))
    for result in held:
        close(result, wanted)


def test_inputs_are_mutated_once_a_call(runtime: Any) -> None:
    def launch(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return cache * 2

    for mutates in (None, (0,)):
        graph = runtime.CudaGraph(launch, mutates)
        for fresh in (False, True):
            cache = torch.zeros(100, device="cuda")
            x = torch.ones(100, device="cuda")
            for number in range(1, 12):
                keep = cache
                if fresh:
                    cache = cache.clone()
                result = graph(cache, x)
                assert torch.equal(cache, torch.full_like(cache, number))
                assert torch.equal(result, torch.full_like(cache, 2 * number))
                del keep


def test_results_may_be_inputs_and_share_memory(runtime: Any) -> None:
    def launch(x: torch.Tensor, n: int) -> dict[str, Any]:
        y = x * 2
        return {
            "input": x,
            "part": x[1:],
            "whole": y,
            "row": (y[0], y.t()),
            "n": n,
            "none": None,
            "no": y[:0],
        }

    graph = runtime.CudaGraph(launch)
    memory = torch.randn(5, 4, device="cuda")
    for _ in range(4):
        x = memory[1:]
        result = graph(x, 3)
        assert result["input"] is x
        assert result["part"].data_ptr() == x[1:].data_ptr()
        assert result["part"].shape == (3, 4)
        result["whole"][0] = 7.0
        assert torch.equal(result["row"][0], torch.full((4,), 7.0, device="cuda"))
        assert torch.equal(result["row"][1], result["whole"].t())
        assert (result["n"], result["none"], result["no"].shape) == (3, None, (0, 4))
        del result


def test_random_numbers_go_on_and_can_be_reproduced(runtime: Any) -> None:
    graph = runtime.CudaGraph(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(1000, device="cuda")

    def draw() -> list[torch.Tensor]:
        torch.manual_seed(3)
        return [graph(x).clone() for _ in range(4)]

    draw()
    first, second = draw(), draw()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], first[1])


def test_bfloat16_and_integers_come_out(runtime: Any) -> None:
    graph = runtime.CudaGraph(lambda x: (x + 1, x > 0, x.argmax(), x.double()))
    x = torch.randn(33, device="cuda").bfloat16()
    for _ in range(4):
        for actual, wanted in zip(graph(x), (x + 1, x > 0, x.argmax(), x.double()), strict=True):
            assert actual.dtype == wanted.dtype
            assert torch.equal(actual, wanted)


def test_streams_wait_for_each_other(runtime: Any) -> None:
    model = Mlp(runtime)
    x = torch.randn(64, 64, device="cuda")
    wanted = expected(model, x)
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    results = []
    for stream in streams * 3:
        with torch.cuda.stream(stream):
            results.append(model(x).sum())
    torch.cuda.synchronize()
    for result in results:
        close(result, wanted.sum())


def test_results_outlive_the_recorder(runtime: Any) -> None:
    model = Mlp(runtime)
    x = torch.randn(8, 64, device="cuda")
    wanted = expected(model, x)
    results = [model(x) for _ in range(3)]
    del model
    gc.collect()
    torch.cuda.empty_cache()
    noise = [torch.randn(8, 64, device="cuda") for _ in range(100)]
    for result in results:
        close(result, wanted)
    assert len(noise) == 100


def test_a_result_is_free_as_soon_as_it_is_dropped(runtime: Any) -> None:
    graph = runtime.CudaGraph(lambda x: x + 1)
    x = torch.zeros(10, device="cuda")
    gc.disable()
    try:
        for _ in range(6):
            result = graph(x)
            del result
        assert not any(one.is_in_use() for one in graph.recordings)
    finally:
        gc.enable()


def test_unsafe_calls_run_without_recording_and_say_why(
    runtime: Any, caplog: pytest.LogCaptureFixture
) -> None:
    graph = runtime.CudaGraph(lambda x: x * 2)
    x = torch.ones(3, device="cuda")
    with caplog.at_level(logging.WARNING):
        assert torch.equal(graph(torch.ones(3)), torch.full((3,), 2.0))
        assert graph(torch.ones(3, device="cuda", requires_grad=True)).requires_grad
        outer = torch.cuda.CUDAGraph()
        with torch.cuda.graph(outer):
            result = graph(x)
        outer.replay()
    assert torch.equal(result, x * 2)
    text = caplog.text
    assert "CUDA device" in text and "requires grad" in text and "another recording" in text
    assert not graph.recordings


def test_what_cannot_be_recorded_runs_every_time(runtime: Any, caplog: pytest.LogCaptureFixture) -> None:
    graph = runtime.CudaGraph(lambda x: x * x.sum().item())
    with caplog.at_level(logging.WARNING):
        x = torch.ones(4, device="cuda")
        for _ in range(4):
            assert torch.equal(graph(x), x * 4)
    assert caplog.text.count("recording failed") == 1


def test_copies_of_a_module_record_for_themselves(runtime: Any) -> None:
    model = Mlp(runtime)
    x = torch.randn(8, 64, device="cuda")
    for _ in range(3):
        model(x)
    other = copy.deepcopy(model)
    assert other.graph.launch.__self__ is other
    assert not other.graph.recordings
    other.up.weight.zero_()
    for _ in range(3):
        close(other(x), expected(other, x))
        close(model(x), expected(model, x))
