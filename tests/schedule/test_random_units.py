"""Random functions of pointwise operations, reductions and views: their whole plans compute what eager computes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.schedule.test_scheduler import TARGETS, planned

MOST_ELEMENTS = 4000
BINARY = (torch.add, torch.mul, torch.sub)


def _last(t: Tensor, of_many: Callable[[Tensor], Tensor]) -> Tensor:
    return of_many(t) if t.dim() and t.shape[-1] > 1 else t


OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda t, i: torch.tanh(t),
    lambda t, i: _last(t, lambda u: torch.softmax(u, -1)),
    lambda t, i: t.sum(0, keepdim=True) if t.dim() else t + 1,
    lambda t, i: _last(t, lambda u: u.mean(-1, keepdim=True)),
    lambda t, i: t.transpose(0, -1).contiguous() if t.dim() > 1 else t.neg(),
    lambda t, i: t.reshape(-1),
    lambda t, i: t.reshape(2, -1) if t.numel() % 2 == 0 else t.abs(),
    lambda t, i: t[1:] if t.dim() and t.shape[0] > 2 else t.sigmoid(),
    lambda t, i: _last(t, lambda u: torch.cat([u, u * 2], -1)),
    lambda t, i: _last(t, lambda u: F.pad(u, (1, 2))),
    lambda t, i: t.flip(0) if t.dim() else t,
    lambda t, i: torch.where(t > 0, t, 0.1 * t),
    lambda t, i: _last(t, lambda u: F.layer_norm(u, u.shape[-1:])),
    lambda t, i: _last(t, lambda u: u[..., i.clamp(max=u.shape[-1] - 1)]),
    lambda t, i: t.amax(-1) if t.dim() > 1 else t.exp().clamp(max=3),
    lambda t, i: t.unsqueeze(0).expand(2, *t.shape) if t.dim() < 3 else t,
)


def random_function(seed: int) -> Callable[..., tuple[Tensor, ...]]:
    """A function that is the same each time it is called."""

    def function(x: Tensor, y: Tensor, z: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        choose = random.Random(seed)
        pool = [x, y, z, x.t(), y[:, 1:5]]
        results: list[Tensor] = []
        for _ in range(choose.randint(4, 12)):
            left = choose.choice(pool) if choose.random() < 0.4 else pool[-1]
            right, binary, unary = choose.choice(pool), choose.choice(BINARY), choose.choice(OPERATIONS)
            is_binary = choose.random() < 0.2 and _broadcast(left, right)
            value = binary(left, right) if is_binary else unary(left, index)
            pool.append(value if value.numel() <= MOST_ELEMENTS else value.reshape(-1)[:400])
            if choose.random() < 0.25:
                results.append(pool[-1] + 0)
        return (*results, pool[-1] * 1)

    return function


def _broadcast(left: Tensor, right: Tensor) -> bool:
    try:
        torch.broadcast_shapes(left.shape, right.shape)
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(25))
def test_a_random_function(seed: int, target: str) -> None:
    torch.manual_seed(seed)
    inputs = (torch.randn(4, 6), torch.randn(6, 8), torch.randn(6), torch.tensor([0, 2, 1]))
    planned(random_function(seed), *inputs, target=target)
