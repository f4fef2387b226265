"""Positions that a sort, a clamp or an arange made are read without a check, and only those."""

from __future__ import annotations

import pytest
import torch

from longhand.capture.known.ranges import is_permutation, range_of
from longhand.lower.ir import Load, Pointwise, PointwiseOp
from tests.lower.conftest import traced

CERTAIN = {
    "sort": lambda x: torch.sort(x)[1],
    "stable": lambda x: torch.sort(x, dim=0, stable=True)[1].permute(1, 0)[:, :3],
    "argsort": lambda x: torch.argsort(x.reshape(-1)).reshape(-1) // 6,
    "topk": lambda x: torch.topk(x, 2, dim=0)[1],
    "max": lambda x: x.max(1)[1],
    "argmax": lambda x: x.argmax(0, keepdim=True),
    "flat": lambda x: torch.div(x.argmin().reshape(1), 5, rounding_mode="floor"),
    "clamp": lambda x: (x * 100).long().clamp(1, 3),
    "clamped twice": lambda x: (x * 100).long().clamp(0, 9).clamp(max=4),
    "arange": lambda x: torch.arange(1, 4).repeat(2),
    "remainder": lambda x: (x * 100).long() % 4,
    "either": lambda x: torch.where(x > 0, x.argmax() // 6, torch.arange(5)),
    "joined": lambda x: torch.cat([x.argmax(0), torch.argsort(x[:, 0])]),
    "picked": lambda x: torch.sort(x[0])[1][(x[1] * 3).long().clamp(-2, 2)],
    "truth": lambda x: (x > 0).long(),
}
NOT_CERTAIN = {
    "an input's": lambda x: (x * 2).long(),
    "from below": lambda x: (x * 2).long().clamp(-1, 3),
    "open": lambda x: (x * 2).long().clamp(min=0),
    "one less": lambda x: x.argmax(0) - 1,
    "backwards": lambda x: torch.arange(3, -1, -1),
    "wide": lambda x: torch.sort(x.reshape(-1))[1],
    "by a negative": lambda x: x.argmax(0) // -2,
}


def _last(function):
    graph = traced(function, [torch.randn(6, 5)])
    (output,) = graph.outputs
    return next(node for node in graph.graph.nodes if node.name == output.value)


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_certain_holds_for_every_input(name):
    found = range_of(_last(CERTAIN[name]))
    for seed in range(5):
        made = CERTAIN[name](torch.randn(6, 5, generator=torch.Generator().manual_seed(seed)))
        assert found.least <= made.min() and made.max() < found.limit


@pytest.mark.parametrize("name", CERTAIN)
def test_nothing_is_checked_of_what_is_certain(check, name):
    function, table = CERTAIN[name], torch.randn(6, 3)
    result = check(lambda x, table: table[function(x)], torch.randn(6, 5), table, externs=None)
    loads = [value for nest in result.nests for value in nest.body if isinstance(value, Load)]
    assert any(load.index.values for load in loads)
    assert not any(load.mask is not None for load in loads if load.index.values)


@pytest.mark.parametrize("name", NOT_CERTAIN)
def test_what_is_not_certain_is_checked(name):
    found = range_of(_last(NOT_CERTAIN[name]))
    assert found is None or found.limit > 6


def test_sizes_that_vary(check):
    graph = traced(lambda x: torch.sort(x.reshape(-1))[1] // x.shape[1], [torch.randn(6, 5)], symbolic=True)
    assert range_of(next(n for n in graph.graph.nodes if n.name == graph.outputs[0].value)) is None
    graph = traced(lambda x: torch.sort(x.repeat(2))[1] // 2, [torch.randn(6)], symbolic=True)
    last = next(node for node in graph.graph.nodes if node.name == graph.outputs[0].value)
    assert str(range_of(last).limit) == "s0" or str(range_of(last).limit).startswith("s")
    # Of more than 127 elements the positions are negative.
    graph = traced(lambda x: torch.sort(x)[1].to(torch.int8), [torch.randn(6)], symbolic=True)
    assert range_of(next(n for n in graph.graph.nodes if n.name == graph.outputs[0].value)) is None


def test_a_floor_of_what_is_not_negative_is_the_languages_own_division(check):
    table = torch.randn(6, 3)
    result = check(lambda x, t: t[torch.sort(x)[1] // 2], torch.randn(12), table, externs=None)
    ops = {value.op for nest in result.nests for value in nest.body if isinstance(value, Pointwise)}
    assert PointwiseOp.TRUNC_DIV in ops and PointwiseOp.FLOOR_DIV not in ops


def test_memory_that_a_permutation_fills_holds_what_it_is_filled_with():
    def inverse(x):
        order = torch.sort(x)[1]
        found = torch.empty_like(order)
        found[order] = torch.arange(order.shape[0])
        return found

    last = _last(lambda x: inverse(x[:, 0]))
    assert last.target is torch.ops.aten.index_put.default
    assert range_of(last).limit == 6
    assert is_permutation(last.args[1][0])
    again = _last(lambda x: torch.empty(6).long().index_put((x.argmax(0),), torch.arange(5)))
    assert range_of(again) is None
