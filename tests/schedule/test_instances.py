"""Layers that a program leaves out are made from their equals; what is not certainly alike is planned."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.diff_size import MODEL
from examples.gpt import GPT
from longhand.capture.frontends.export import capture_export
from longhand.capture.graph import CapturedGraph
from longhand.lower.lowering import lower
from longhand.schedule.layers.replication import LayersDiffer
from longhand.schedule.plan import Repeat, UnitPlan
from longhand.schedule.scheduler import schedule
from tests.schedule.test_scheduler import TARGETS, Unit, rand


def left_out(graph: CapturedGraph, target: str) -> int:
    """How many layers the program does without."""
    program = lower(graph, TARGETS[target], every_layer=False)
    return sum(len(chain.names) - chain.n_kept for chain in program.layers)


def planned(graph: CapturedGraph, target: str, every_layer: bool) -> UnitPlan:
    return schedule(lower(graph, TARGETS[target], every_layer=every_layer), TARGETS[target])


def planned_as_usual(graph: CapturedGraph) -> UnitPlan:
    """The plan that a compilation makes."""
    try:
        return planned(graph, "cpu", every_layer=False)
    except LayersDiffer:
        return planned(graph, "cpu", every_layer=True)


def captured(module: nn.Module, *args: torch.Tensor, target: str = "cpu") -> CapturedGraph:
    with torch.no_grad():
        return capture_export(module.eval(), args, {}, target=TARGETS[target].target)


def assert_right(module: nn.Module, graph: CapturedGraph, plan: UnitPlan, *args: torch.Tensor) -> None:
    """The plan, executed literally, computes what the module does."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers()), **graph.constants}
    given = iter(args)
    inputs = {
        entry.node: state[entry.target] if entry.target in state else next(given) for entry in graph.inputs
    }
    with torch.no_grad():
        found = Unit(plan, {name: tensor.detach() for name, tensor in inputs.items()}).results()
        expected = module(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for ours, eager in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)


class Stack(nn.Module):
    """Layers called in a loop, by a function of (x, layer, its number)."""

    def __init__(self, call: Callable[..., torch.Tensor], depth: int = 9) -> None:
        super().__init__()
        self.call = call
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = self.call(x, layer, number)
        return x.sum(-1)


def residual(x: torch.Tensor, layer: nn.Module, number: int) -> torch.Tensor:
    return x + F.gelu(layer(x))


ALIKE = {
    "residual": lambda: Stack(residual),
    "plain": lambda: Stack(lambda x, layer, number: F.gelu(layer(x))),
    "transposed and back": lambda: Stack(lambda x, layer, number: F.gelu(layer(x).T.contiguous().T)),
    "gpt": lambda: GPT(n_tokens=64, max_seq=16, dim=16, n_heads=2, n_layers=9),
}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ALIKE)
def test_the_plan_is_that_of_all_layers(name: str, target: str) -> None:
    torch.manual_seed(0)
    module = ALIKE[name]()
    args = (torch.randint(64, (2, 8)),) if name == "gpt" else (rand(4, 8),)
    graph = captured(module, *args, target=target)
    assert left_out(graph, target) >= 3
    made, whole = (planned(graph, target, every) for every in (False, True))
    assert made.steps == whole.steps
    assert made.buffers == whole.buffers
    assert made.kernels == whole.kernels
    assert made.results == whole.results
    if target == "cpu" and name != "gpt":
        assert_right(module, graph, made, *args)


class Flipped(nn.Module):
    """What a layer hands on beside x is a view of what it took: it tells only at the end how many there were."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x, y = F.gelu(layer(x)), y.flip(0)
        return x + y


class Counting(nn.Module):
    """As `Flipped`, with a number that is known."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place, count = torch.arange(8), torch.zeros(8)
        for layer in self.layers:
            x, place, count = F.gelu(layer(x)), place + 1, count + 1
        return x + place + count


class Growing(nn.Module):
    """A scale that only the number of the layer tells."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = F.gelu(layer(x)) * (0.5 if number == 6 else -0.0 if number % 2 else 0.0)
        return x


class Seen(nn.Module):
    """A layer whose result is read at the end, too."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        seen = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            seen.append(x)
        return x.sum(-1), seen[6].amax(-1)


class Tied(nn.Module):
    """Layers of which one has another's weight."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))
        self.layers[6].weight = self.layers[5].weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


@pytest.mark.parametrize(
    ("module", "n_args", "n_left_out"),
    [
        (Flipped(9), 2, 0),
        (Flipped(10), 2, 0),
        (Counting(9), 1, 3),  # counted by kernels, as any other value
        (Growing(9), 1, 0),
        (Seen(9), 1, 2),  # of the six before the one that is seen
        (Tied(9), 1, 0),
    ],
    ids=["flipped", "flipped even", "counting", "growing", "seen", "tied"],
)
def test_what_is_not_alike_is_planned(module: nn.Module, n_args: int, n_left_out: int) -> None:
    args = [rand(8, 8) for _ in range(n_args)]
    graph = captured(module, *args)
    assert left_out(graph, "cpu") == n_left_out
    assert_right(module, graph, planned_as_usual(graph), *args)


class Shared(nn.Module):
    """What each layer computes of its own weight alone may be done before the loop."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = [layer.weight / layer.weight.norm(dim=1, keepdim=True) for layer in self.layers]
        for layer, weight in zip(self.layers, weights, strict=True):
            x = torch.tanh(F.linear(x, weight, layer.bias))
        return x


def test_work_outside_of_the_loop() -> None:
    module = Shared(9)
    args = (rand(4, 8),)
    graph = captured(module, *args)
    assert_right(module, graph, planned_as_usual(graph), *args)


def test_an_odd_layer_divides_the_chain() -> None:
    scope: dict[str, type[nn.Module]] = {"__name__": "transformer"}
    exec(compile(MODEL, "transformer", "exec"), scope)
    module = scope["Transformer"](dim=8, n_heads=2, n_layers=16)
    module.blocks[8].mlp.act = nn.ReLU()
    args = (rand(2, 4, 8),)
    graph = captured(module, *args)
    assert left_out(graph, "cpu") >= 3
    made, whole = (planned(graph, "cpu", every) for every in (False, True))
    assert made.steps == whole.steps
    assert sum(isinstance(step, Repeat) for step in made.steps) >= 2
    assert_right(module, graph, made, *args)
