"""Equal layers are found, whatever stands around them; unequal ones are not."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from longhand.schedule.plan import Repeat
from longhand.schedule.scheduler import schedule
from tests.schedule.test_scheduler import TARGETS, Layer, Unit, exported, rand


def repeats(module: nn.Module, *args: torch.Tensor) -> list[Repeat]:
    """The repeats of a module's plan, which must compute what the module does."""
    with torch.no_grad():
        program, inputs = exported(module, *args)
        plan = schedule(program, TARGETS["cpu"])
        expected = module(*args)
    results = expected if isinstance(expected, tuple) else (expected,)
    for ours, eager in zip(Unit(plan, inputs).results(), results, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
    return [step for step in plan.steps if isinstance(step, Repeat)]


class Plain(nn.Module):
    """Layers without a residual: all of them are alike."""

    def __init__(self, depth: int, collect: bool = False, shared: bool = False) -> None:
        super().__init__()
        self.collect = collect
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)) for _ in range(depth)])
        self.scale = nn.Parameter(torch.ones(8)) if shared else None

    def forward(self, x: torch.Tensor) -> Any:
        seen = []
        for layer in self.layers:
            x = F.gelu(layer(x))
            if self.scale is not None:
                x = x * self.scale
            seen.append(x)
        return tuple(seen) if self.collect else x.sum(-1)


def carries(repeat: Repeat) -> bool:
    """Whether each run takes what the run before hands on, always the same places."""
    places = {
        tuple(before.index(name) for name in after)
        for before, after in zip(repeat.outputs, repeat.inputs[1:], strict=False)
    }
    return len(places) == 1


def test_all_layers_of_a_plain_stack() -> None:
    (repeat,) = repeats(Plain(5), rand(4, 8))
    # The last one is fused with the sum after it.
    assert repeat.paths == tuple(f"layers.{number}" for number in range(4))
    assert carries(repeat)


def test_a_weight_that_all_layers_share() -> None:
    (repeat,) = repeats(Plain(5, shared=True), rand(4, 8))
    assert len(repeat.runs) == 4
    assert all(
        "scale" in {name for step in run for name in getattr(step, "buffers", ())} for run in repeat.runs
    )


def test_what_is_read_after_the_loop_is_handed_on() -> None:
    for repeat in repeats(Plain(5, collect=True), rand(4, 8)):
        assert all(repeat.outputs)
        assert len({len(names) for names in repeat.outputs}) == 1


class TwoStacks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList([Layer(8) for _ in range(4)])
        self.narrow = nn.Linear(8, 4)
        self.second = nn.ModuleList([Layer(4) for _ in range(5)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.first:
            x = layer(x)
        x = self.narrow(x)
        for layer in self.second:
            x = layer(x)
        return x


def test_two_stacks_are_two_repeats() -> None:
    found = repeats(TwoStacks(), rand(4, 8))
    assert [repeat.paths[0].partition(".")[0] for repeat in found] == ["first", "second"]
    assert all(carries(repeat) for repeat in found)


class Crossed(Plain):
    """A layer in the middle takes its input from two layers before."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = x
        skipped = x
        for number, layer in enumerate(self.layers):
            x, before = F.gelu(layer(before if number == 3 else x)), x
            skipped = x if number == 2 else skipped
        return x.sum(-1), skipped.amax(-1)


def test_a_layer_wired_otherwise_is_not_taken_for_its_neighbours() -> None:
    found = repeats(Crossed(8), rand(4, 8))
    assert found
    for repeat in found:
        assert carries(repeat)
        assert not {"layers.2", "layers.3"} <= set(repeat.paths)


def test_no_repeat_without_modules() -> None:
    class Loop(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            for _ in range(6):
                x = F.gelu(x @ w)
            return x

    assert repeats(Loop(), rand(4, 8), rand(8, 8)) == []


class WritesNumbers(Plain):
    """Each layer writes its own tensor of the same number, and the last one of another."""

    def forward(self, x: torch.Tensor) -> Any:
        for number, layer in enumerate(self.layers):
            limit = torch.tensor([0.5, 0.25] * 4) if number < 5 else torch.tensor([0.5, -0.25] * 4)
            x = F.gelu(layer(x)) * torch.tensor(3.0) - limit
        return x.softmax(-1)


def test_numbers_that_each_layer_writes_out_are_one_constant() -> None:
    (repeat,) = repeats(WritesNumbers(6), rand(4, 8))
    assert len(repeat.runs) == 5
    assert not {"constant", "limit"} & {name for run in repeat.own for name in run}


class Picks(nn.Module):
    """Rows in an order that a table decides, which every layer makes out of the scale for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        x = self.up(x).cumsum(0)
        table = torch.cumsum(scale.exp(), 0)
        order = torch.sort(x.mm(table[:, None])[:, 0]).indices
        return x[order].tanh()


class DenseFirst(nn.Module):
    """A layer of another kind first."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), *(Picks() for _ in range(4))])

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        x = self.layers[0](x)
        for layer in self.layers[1:]:
            x = layer(x, scale)
        return x.mm(x.t())


def test_what_layers_share_is_made_before_the_first_that_asks_for_it() -> None:
    (repeat,) = repeats(DenseFirst(), rand(4, 8), rand(8))
    assert repeat.paths == ("layers.1", "layers.2", "layers.3", "layers.4")
