"""What is deduced of a call's result is what the call yields, at every element: random programs, any sizes."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import pytest
import torch
from torch import fx

from longhand.capture import torch_private
from longhand.capture.known.deduction import facts_of
from longhand.capture.known.facts import Affine, AffineValue, Fact, Piecewise, SameNumber

aten = torch.ops.aten


def values_of(function: Affine, shape: torch.Size, sizes: dict) -> torch.Tensor:
    offset = function.offset if isinstance(function.offset, int) else int(function.offset.subs(sizes))
    total = torch.full(shape, offset, dtype=torch.int64)
    for dim, step in enumerate(function.steps):
        index = torch.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
        total = total + step * index
    return total


def materialized(fact: Fact, like: torch.Tensor, sizes: dict) -> torch.Tensor:
    if isinstance(fact, SameNumber):
        return torch.full_like(like, fact.number)
    if isinstance(fact, AffineValue):
        return values_of(fact.value, like.shape, sizes).to(like.dtype)
    holds = torch.ones(like.shape, dtype=torch.bool)
    for condition in fact.conditions:
        holds &= values_of(condition, like.shape, sizes) >= 0
    inside, outside = torch.full_like(like, fact.inside), torch.full_like(like, fact.outside)
    return torch.where(holds, inside, outside)


def check(traced: fx.GraphModule, arguments: tuple, sizes: dict) -> dict[str, Fact]:
    """Compares every fact with what the graph computes there."""
    facts = facts_of(traced.graph)

    class Comparison(fx.Interpreter):
        def run_node(self, node: fx.Node):
            value = super().run_node(node)
            if node in facts:
                torch.testing.assert_close(
                    materialized(facts[node], value, sizes),
                    value,
                    rtol=0,
                    atol=0,
                    equal_nan=True,
                    msg=str(node),
                )
            return value

    Comparison(traced).run(*arguments)
    return {node.name: fact for node, fact in facts.items()}


def program(seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A random function of the sizes of its argument alone."""

    def run(x: torch.Tensor) -> torch.Tensor:
        choose = random.Random(seed)
        n, m = x.shape
        numbers = [
            torch.arange(n),
            torch.arange(2, m + 2),
            torch.zeros(n, dtype=torch.int64),
            torch.full((m,), 3),
        ]
        masks: list[torch.Tensor] = [torch.ones(n, m, dtype=torch.bool).tril(choose.randrange(-1, 3))]
        for _ in range(14):
            grow(choose, numbers, masks)
        floats = torch.where(masks[-1], 0.0, choose.choice([float("-inf"), -1.5]))
        return (floats * 2 + 1).triu() if floats.dim() == 2 else floats - 1

    return run


def grow(choose: random.Random, numbers: list, masks: list) -> None:
    """One more value out of those there are."""
    a, b = choose.choice(numbers), choose.choice(numbers)
    p, q = choose.choice(masks), choose.choice(masks)
    makers = [
        lambda: a[:, None] if a.dim() == 1 else a.transpose(0, 1),
        lambda: a + choose.randrange(-2, 3),
        lambda: a * choose.randrange(-1, 3),
        lambda: a - b if a.shape == b.shape else a[:1],
        lambda: a[:, None] + b if a.dim() == b.dim() == 1 else a[1:],
        lambda: torch.cat([a[:1] - 1, a]) if a.dim() == 1 else a[-1],
        lambda: torch.diff(a, prepend=a[:1] - choose.randrange(3)) if a.dim() == 1 else a.unsqueeze(0),
        lambda: a[:1].expand(2, *a.shape[1:]) if a.dim() < 3 else a,
        lambda: a[a.new_zeros(2)] if a.dim() == 1 else a,
        lambda: (a != choose.randrange(3)).cumsum(-1),
        lambda: a >= b if a.shape == b.shape else a < choose.randrange(4),
        lambda: a[:, None] <= b if a.dim() == b.dim() == 1 else a == a,
        lambda: a[:, None] > b - 1 if a.dim() == b.dim() == 1 else a.eq(1),
        lambda: p & q if p.shape == q.shape else ~p,
        lambda: p | q if p.shape == q.shape else p.logical_not(),
        lambda: p[1:] if p.dim() else p,
        lambda: a[:, None].repeat(1, 3) if a.dim() == 1 else a.repeat(2, *(1 for _ in a.shape)),
        lambda: a[:1].repeat(3) if a.dim() == 1 else a,
        lambda: p[:, -2:] if p.dim() == 2 else p,
    ]
    made = choose.choice(makers)()
    (masks if made.dtype is torch.bool else numbers).append(made)


# The others in the sweep.
SEEDS = [pytest.param(seed, marks=() if seed < 20 else pytest.mark.slow) for seed in range(60)]


@pytest.mark.parametrize("seed", SEEDS)
def test_facts_are_what_is_computed(seed: int) -> None:
    choose = random.Random(seed + 1000)
    x = torch.zeros(choose.randrange(2, 6), choose.randrange(2, 6))
    check(torch_private.make_fx(program(seed))(x), (x,), {})


@pytest.mark.parametrize("seed", SEEDS)
def test_facts_hold_at_every_size(seed: int) -> None:
    try:
        traced = torch_private.make_fx(program(seed), tracing_mode="symbolic")(torch.zeros(4, 5))
    except RuntimeError:
        pytest.skip("sizes that do not go together")
    placeholder = next(iter(traced.graph.nodes))
    symbols = [torch_private.symbolic_expression(size) for size in placeholder.meta["val"].shape]
    held = torch_private.shape_env_of(placeholder.meta["val"].shape[0]).guards
    for shape in ((4, 5), (9, 3), (3, 11), (6, 7)):
        sizes = dict(zip(symbols, shape, strict=True))
        if all(guard.expr.subs(sizes) == True for guard in held):  # noqa: E712  (SymPy's own True)
            check(traced, (torch.zeros(shape),), sizes)


def mask_of_transformers(x: torch.Tensor) -> torch.Tensor:
    """How its masking_utils make a causal mask where no mask and no positions are given."""
    n = x.shape[1]
    positions = torch.arange(n).unsqueeze(0).expand(x.shape[0], -1)
    packed = (torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    batch, query, key = (
        torch.arange(x.shape[0])[:, None, None, None],
        torch.arange(n)[:, None],
        torch.arange(n),
    )
    same = packed[batch, query] == packed[batch, key]
    return torch.ones((), dtype=torch.bool) & same & (key <= query)


@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_the_causal_mask_is_proven(mode: str) -> None:
    x = torch.zeros(3, 5)
    traced = torch_private.make_fx(mask_of_transformers, tracing_mode=mode)(x)
    facts = facts_of(traced.graph)
    mask = traced.graph.output_node().args[0]
    assert facts[mask] == Piecewise(frozenset([Affine(0, (0, 0, 1, -1))]), True, False)


def test_a_window_wider_than_the_sequence_is_none() -> None:
    def window(x: torch.Tensor, *, width: int) -> torch.Tensor:
        place = torch.arange(x.shape[0])
        return (place <= place[:, None]) & (place > place[:, None] - width)

    for width, n_conditions in ((8, 1), (3, 2)):
        traced = torch_private.make_fx(functools.partial(window, width=width))(torch.zeros(8))
        fact = facts_of(traced.graph)[traced.graph.output_node().args[0]]
        assert isinstance(fact, Piecewise) and len(fact.conditions) == n_conditions


def test_what_data_decides_is_not_known() -> None:
    traced = torch_private.make_fx(lambda x: (x[:, 0] > 0) & torch.ones(3, dtype=torch.bool))(
        torch.zeros(3, 2)
    )
    assert traced.graph.output_node().args[0] not in facts_of(traced.graph)
