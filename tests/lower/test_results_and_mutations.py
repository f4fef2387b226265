"""What a call returns and writes back: aliases, fresh results, mutated inputs and buffers, through torch.export."""

from __future__ import annotations

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

from longhand.capture.frontends.export import capture_export
from longhand.capture.graph import CapturedGraph, InputKind
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import BufferKind, View
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target

OPTIONS = Options(Target(Device.CPU))


def inputs_of(graph: CapturedGraph, model: object, args: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    """A tensor for every placeholder."""
    leaves = dict(zip(graph.argument_leaves, pytree.tree_leaves((args, {})), strict=True))
    state = {}
    if isinstance(model, nn.Module):
        state = dict(model.named_parameters()) | dict(model.named_buffers())
    found = {}
    for entry in graph.inputs:
        known = leaves.get(entry.node) if entry.kind is InputKind.ARGUMENT else state.get(entry.target)
        found[entry.node] = graph.constants[entry.target] if known is None else known
    return found


def run(model, *args):
    """The program and its results; inputs are written in place."""
    graph = capture_export(model, args, target=OPTIONS.target)
    program = lower(graph, OPTIONS)
    inputs = inputs_of(graph, model, args)
    with torch.no_grad():
        buffers = run_program(program, inputs)
    return program, results_of(program, buffers, inputs)


def test_a_mutated_input_is_written_and_returned():
    def step(x):
        x.add_(1)
        return x, x.t()

    x, expected = torch.zeros(2, 3), torch.ones(2, 3)
    program, (first, second) = run(step, x)
    torch.testing.assert_close(x, expected)
    torch.testing.assert_close(first, expected)
    assert first.data_ptr() == x.data_ptr() and second.data_ptr() == x.data_ptr()
    assert all(isinstance(result, View) for result in program.results)


def test_swapped_inputs_do_not_overwrite_each_other():
    def swap(a, b):
        saved = a.clone()
        a.copy_(b)
        b.copy_(saved)
        return a + b

    a, b = torch.randn(4), torch.randn(4)
    old_a, old_b = a.clone(), b.clone()
    _, (total,) = run(swap, a, b)
    torch.testing.assert_close(a, old_b)
    torch.testing.assert_close(b, old_a)
    torch.testing.assert_close(total, old_a + old_b)


def test_the_old_value_is_read_before_it_is_overwritten():
    def step(x):
        before = x * 2
        x.mul_(3)
        return before, x + 0

    x = torch.ones(3)
    _, (before, after) = run(step, x)
    torch.testing.assert_close(before, torch.full((3,), 2.0))
    torch.testing.assert_close(after, torch.full((3,), 3.0))


class Cache(nn.Module):
    """Writes a slice of a buffer and reads all of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 8, 4))

    def forward(self, x):
        self.cache[:, 2:4] = x
        return self.cache.sum(1)


def test_a_buffer_is_written_back():
    model = Cache()
    x = torch.randn(2, 2, 4)
    program, (total,) = run(model, x)
    torch.testing.assert_close(total, x.sum(1))
    torch.testing.assert_close(model.cache[:, 2:4], x)
    assert program.buffers["cache"].kind is BufferKind.WEIGHT


def test_fresh_results_share_no_memory():
    def copies(x):
        y = x.relu()
        return y, y.clone(), x.clone()

    x = torch.randn(5)
    _, results = run(copies, x)
    assert len({result.data_ptr() for result in (*results, x)}) == 4
    torch.testing.assert_close(results[2], x)


def test_views_of_one_result_share_memory():
    def views(x):
        y = x.relu()
        return y, y.t(), y[0]

    _, (y, transposed, row) = run(views, torch.randn(3, 4))
    assert y.data_ptr() == transposed.data_ptr() == row.data_ptr()


@pytest.mark.parametrize("view", [lambda h: h.transpose(-1, 0), lambda h: h.view(4, 4), lambda h: h[3:]])
def test_views_of_a_repeated_result_share_memory(view):
    """Seed 300997 of the random programs: eager's reshape copies, capture's does not know."""

    def repeated(x):
        h = x.repeat_interleave(2, 0)
        return h, view(h)

    x = torch.randn(8)
    _, (whole, part) = run(repeated, x)
    for mine, expected in zip((whole, part), repeated(x), strict=True):
        torch.testing.assert_close(mine, expected)
        assert mine.stride() == expected.stride()
    assert whole.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()


def test_a_window_of_an_argument_that_begins_inside_its_memory_is_a_view_of_it():
    x = torch.randn(4, 4)[1:]
    _, (window,) = run(lambda x: x.as_strided((2, 2), (1, 2)), x)
    assert window.data_ptr() == x.data_ptr()
    torch.testing.assert_close(window, x.as_strided((2, 2), (1, 2)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_bags_of_places_that_lie_apart(dtype):
    """ATen's kernel takes them as one after the other; in eager the call above it sees to that."""

    def bags(weight, at):
        return torch.nn.functional.embedding_bag(at, weight, mode="sum")

    weight, at = torch.randn(10, 3).to(dtype), torch.randint(10, (5, 8))[:, ::2]
    _, (found,) = run(bags, weight, at)
    torch.testing.assert_close(found, bags(weight, at))


def test_no_result_is_no_tensor():
    _, results = run(lambda x: (x + 1, None, 7), torch.ones(2))
    assert results[1:] == [None, 7]


class StackedCache(nn.Module):
    """Layers that write a token into their own part of one cache, and read it."""

    def forward(self, x: torch.Tensor, cache: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        for part in cache:
            part[:, position] = x
            x = x + part.sum(1, keepdim=True)
        return x


class RewrittenCache(nn.Module):
    """The same part twice, and what lay in it is read when all is written."""

    def forward(self, x: torch.Tensor, cache: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        before = cache[1] * 1
        cache[1][:, position] = x
        between = cache[1] * 1
        cache[1][:, position] = x + 1
        return before + 2 * between + 4 * cache[1]


@pytest.mark.parametrize(
    ("model", "wholes"), [(StackedCache(), 1), (RewrittenCache(), 3)], ids=["stacked", "rewritten"]
)
def test_a_part_of_a_cache_is_written_where_it_lies(model, wholes):
    """A cache of all layers costs what is written into it, not a copy of all of it in each layer."""
    x, cache, position = torch.randn(2, 1, 3), torch.randn(4, 2, 5, 3), torch.tensor([2])
    expected_cache = cache.clone()
    expected = model(x, expected_cache, position)
    program, results = run(model, x, cache, position)
    torch.testing.assert_close(results[0], expected)
    torch.testing.assert_close(cache, expected_cache)
    assert sum(buffer.shape == tuple(cache.shape) for buffer in program.buffers.values()) == wholes
