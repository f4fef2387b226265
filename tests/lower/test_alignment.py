"""Badly aligned products are widened on CUDA: the values stay, large ones only, and nothing on the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from longhand.lower.ir import Extern, Program, View, in_parts
from tests.lower.test_layouts import CPU, CUDA, Function, checked

aten = torch.ops.aten


def head(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight) * 2.0


def head_backward(
    d: torch.Tensor, weight: torch.Tensor, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    scaled = d * 0.5
    return torch.mm(scaled, weight), torch.mm(scaled.t(), x)


def other_swap(d: torch.Tensor, weight: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.mm(d, weight), torch.mm(d.transpose(0, 1), x)


def permuted(d: torch.Tensor, weight: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.mm(d.permute(0, 1), weight), torch.mm(d.permute(1, 0), x)


def products(program: Program) -> list[tuple[int, ...]]:
    """The shapes of the first two arguments of each product, one after the other."""
    found = []
    for step in in_parts(program.steps):
        if isinstance(step, Extern) and step.target in (aten.mm.default, aten.linear.default):
            views = [argument for argument in step.args[:2] if isinstance(argument, View)]
            found.append(tuple(size for view in views for size in view.shape))
    return found


X, W, D = torch.randn(520, 16), torch.randn(1029, 16), torch.randn(520, 1029)


@pytest.mark.parametrize(
    ("function", "args", "widened"),
    [
        (head, (X, W), [(520, 16, 1032, 16)]),
        (head_backward, (D, W, X), [(520, 1032, 1032, 16), (1032, 520, 520, 16)]),
        (other_swap, (D, W, X), [(520, 1032, 1032, 16), (1032, 520, 520, 16)]),
        (permuted, (D, W, X), [(520, 1032, 1032, 16), (1032, 520, 520, 16)]),
        (head, (X, W[:1024].contiguous()), [(520, 16, 1024, 16)]),
        (head, (X[:8].contiguous(), W), [(8, 16, 1029, 16)]),
        (head, (X, W[:33].contiguous()), [(520, 16, 33, 16)]),
        (head_backward, (D[:8].contiguous(), W, X[:8].contiguous()), [(8, 1029, 1029, 16), (1029, 8, 8, 16)]),
    ],
)
def test_large_products_are_widened(
    function: Function, args: tuple[torch.Tensor, ...], widened: list[tuple[int, ...]]
) -> None:
    assert products(checked(function, *args, options=CUDA)) == widened


def test_the_cpu_multiplies_as_it_is() -> None:
    assert products(checked(head, X, W, options=CPU)) == [(520, 16, 1029, 16)]


def test_infinite_values_stay_where_they_are() -> None:
    d = D.clone()
    d[3, 1028], d[4, 0] = float("inf"), -float("inf")
    checked(head_backward, d, W.abs() + 1, X.abs() + 1, options=CUDA)
