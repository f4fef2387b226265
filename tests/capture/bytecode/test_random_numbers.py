"""Numbers that Python's own generator draws: as eager's in each call, whether they are read, kept or handed out."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from random import random as draw
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import longhand
from longhand.errors import CaptureError
from tests.capture.bytecode.running import Captured

X = torch.arange(6.0).reshape(2, 3)


class Dropped(nn.Module):
    """Layers of which some are left out in training, as MusicGen's."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            dropped = random.uniform(0, 1)
            if self.training and dropped < 0.5:
                continue
            x = layer(x)
        return x


def seeded(call: Callable[..., Any], *args: Any, seed: int = 3) -> tuple[Any, float]:
    """What a call gives, and what the generator draws after it."""
    random.seed(seed)
    return call(*args), random.random()


@pytest.mark.parametrize("trains", [False, True])
def test_layers_that_are_dropped(trains: bool) -> None:
    module = Dropped().train(trains)
    captured = Captured(module)
    for seed in range(6):
        found, expected = seeded(captured, X, seed=seed), seeded(module, X, seed=seed)
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]
    assert trains or (captured.count("graph"), captured.count("break")) == (1, 0)


class Kept:
    last: float = 0.0


KEPT = Kept()


def returned(x: torch.Tensor) -> Any:
    return x + 1, draw(), [random.randint(1, 9)], {"k": random.gauss(0.0, sigma=2.0)}


def stored(x: torch.Tensor) -> Any:
    KEPT.last = random.random()
    return x * 2


def multiplied(x: torch.Tensor) -> Any:
    return x * random.random() + random.uniform(2, 3)


def computed(x: torch.Tensor) -> Any:
    p = random.random()
    return x.sin(), p + 1, -p, round(p, 2), f"{p}", str(p), [p] * 2, max(p, 0.5), p == p, p is None


def asked(x: torch.Tensor) -> Any:
    p, n = random.random(), random.randint(0, 1)
    kind = isinstance(p, float), type(n) is int, callable(p), hasattr(p, "hex"), bool(n), not n
    return (x + 1 if n else x - 1), kind, (p if p else 3), p and 4, p > 0.3


def as_keys(x: torch.Tensor) -> Any:
    n = random.randint(0, 2)
    return x[n % 2], {n: 1}, [5, 6, 7][n], n in (0, 1), torch.full((2,), n), range(n)


def of_sizes(x: torch.Tensor) -> Any:
    start = random.randrange(0, x.shape[0] + 1)
    return x.repeat(random.randint(1, 3), 1), start


def written_before(x: torch.Tensor) -> Any:
    y = x.clone()
    y += 1
    first = random.random()
    y *= 2
    print("", end="")
    return y, first, random.random()


def seeded_inside(x: torch.Tensor) -> Any:
    first = random.random()
    random.seed(11)
    return x + 1, first, random.random()


def shuffled(x: torch.Tensor) -> Any:
    items = [1, 2, 3, 4]
    random.shuffle(items)
    return x + items[0], random.choice(items), random.random()


CASES = [
    returned,
    stored,
    multiplied,
    computed,
    asked,
    as_keys,
    of_sizes,
    written_before,
    seeded_inside,
    shuffled,
]


@pytest.mark.parametrize("function", CASES)
def test_whoever_reads_them(function: Callable[..., Any]) -> None:
    captured = Captured(function)
    for seed in range(5):
        KEPT.last = 0.0
        expected, last = seeded(function, X, seed=seed), KEPT.last
        KEPT.last = 0.0
        found = seeded(captured, X, seed=seed)
        pairs = zip(tree_leaves(found), tree_leaves(expected), strict=True)
        assert all(torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b for a, b in pairs)
        assert KEPT.last == last


def test_another_function_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(x: torch.Tensor) -> Any:
        return x + 1, random.uniform(0, 1), random.random()

    captured = Captured(both)
    assert repr(seeded(captured, X)) == repr(seeded(both, X))
    monkeypatch.setattr(random, "uniform", lambda a, b: 7.0)
    assert captured(X)[1] == 7.0
    monkeypatch.setattr(random, "random", lambda: 8.0)
    assert captured(X)[1:] == (7.0, 8.0)


def test_a_checkpoint_draws_again_in_its_backward_pass() -> None:
    module, weight = Dropped().eval(), torch.ones(3, requires_grad=True)

    def step(call: Callable[..., Any], x: torch.Tensor) -> Any:
        y = call(x * weight).sum()
        before = random.random()
        y.backward()
        return y.detach(), before

    def inside(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(module, x, use_reentrant=False) + 1

    captured = Captured(inside)
    for seed in range(3):
        found, expected = seeded(step, captured, X, seed=seed), seeded(step, inside, X, seed=seed)
        assert torch.allclose(found[0][0], expected[0][0]) and found[0][1] == expected[0][1]
        assert found[1] == expected[1]


def test_a_unit_draws_none(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="random numbers are drawn"):
        longhand.generate(Dropped().eval(), (X,), out=tmp_path / "unit", frontend="bytecode")
    assert not (tmp_path / "unit").exists()
