"""Ops whose traced derivative loses something: what was drawn, what was copied, which results have any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import longhand


def drawn_slopes(x):
    return torch.rrelu(x, 0.1, 0.9, training=True).square()


def shuffled(x):
    return torch.channel_shuffle(x.reshape(1, 4, 3), 2)


def shuffled_alone(x):
    return torch.nn.functional.channel_shuffle(x, 2)


def with_statistics(x):
    return torch.native_layer_norm(x, (3,), None, None, 1e-5)


def circular(x):
    return torch.nn.functional.pad(torch.view_as_complex(x.reshape(1, 3, 2, 2)), (1, 1), "circular").abs()


def product_of_one(x):
    return torch.cartesian_prod(x.flatten())


def updated(x):
    mean, var = torch.zeros(4), torch.ones(4)
    y = torch.ops.aten._batch_norm_with_update(x.reshape(3, 4), var * 2, mean + 1, mean, var, 0.1, 1e-5)
    return y[0], mean, var


def first_of_memory(x):
    y = x.detach() * 2
    part = y.resize_(2, 3)
    part.mul_(3)
    return x * y.sum(), part


def complex_parts(x):
    return (torch.view_as_complex(x.reshape(3, 2, 2)) * 2).tensor_split(2)


CASES = [
    complex_parts,
    drawn_slopes,
    shuffled,
    with_statistics,
    circular,
    product_of_one,
    updated,
    first_of_memory,
]


@pytest.mark.parametrize("function", [*CASES, shuffled_alone])
def test_values_and_gradients(function: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    given = torch.randn(1, 4, 3, 1) if function is shuffled_alone else torch.randn(4, 3)
    longhand.generate(function, (given.clone().requires_grad_(),), out=tmp_path / "unit", train=True)
    seen = []
    for call in (longhand.load(tmp_path / "unit"), function):
        own = given.clone().requires_grad_()
        torch.manual_seed(1)
        made = call(own)
        results = list(made) if isinstance(made, tuple | list) else [made]
        sum((one * one).abs().sum() for one in results if one.requires_grad).backward()
        seen.append([*results, own.grad])
    torch.testing.assert_close(*seen)
    assert [one.requires_grad for one in seen[0]] == [one.requires_grad for one in seen[1]]
