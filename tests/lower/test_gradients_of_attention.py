"""The gradients of attention lie as they are said to lie: a copy of them is made only where nothing is certain."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of
from longhand.lower.lowerings.gradients_of_attention import lies_by_position, strides_by_position

_aten = torch.ops.aten
_LAYOUTS: tuple[Callable[[int], torch.Tensor], ...] = (
    lambda n: torch.randn(2, 4, n, 16),
    lambda n: torch.randn(2, n, 4, 16).transpose(1, 2),
    lambda n: torch.randn(2, n, 3, 4, 16).unbind(2)[1].transpose(1, 2),
)


@pytest.mark.parametrize(("of_queries", "of_keys"), list(itertools.product(_LAYOUTS, _LAYOUTS)))
def test_those_for_the_cpu_lie_by_position(
    of_queries: Callable[[int], torch.Tensor], of_keys: Callable[[int], torch.Tensor]
) -> None:
    query, key, value = of_queries(7), of_keys(19), of_queries(19)
    mixed, sums = _aten._scaled_dot_product_flash_attention_for_cpu(query, key, value)
    backward = _aten._scaled_dot_product_flash_attention_for_cpu_backward
    d_mixed = torch.randn(2, 4, 7, 16)
    made = backward(d_mixed, query, key, value, mixed, sums, 0.0, False)
    for place, gradient in enumerate(made):
        assert lies_by_position(backward.default, place, gradient)
        assert gradient.stride() == strides_by_position(gradient.shape)


def test_of_flash_attention_and_of_another_layout_nothing_is_known() -> None:
    plain = torch.zeros(2, 4, 7, 16)
    turned = torch.zeros(2, 7, 4, 16).transpose(1, 2)
    efficient = _aten._scaled_dot_product_efficient_attention_backward.default
    assert lies_by_position(efficient, 0, turned)
    assert not lies_by_position(efficient, 0, plain)
    assert not lies_by_position(efficient, 3, turned)
    assert not lies_by_position(_aten._scaled_dot_product_flash_attention_backward.default, 0, turned)


class SelfAttention(nn.Module):
    """Heads that are brought forward and back."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.project(x).view(*x.shape[:2], 4, 16).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads.sin(), heads.cos(), heads.tanh())
        return mixed.transpose(1, 2).reshape(x.shape)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_they_are_read_where_they_lie(device: str) -> None:
    files = text_of((SelfAttention(), (torch.randn(2, 19, 64),), {}), device, train=True)
    assert ".contiguous()" not in files["backward.py"].partition("def self_attention_backward")[2]
