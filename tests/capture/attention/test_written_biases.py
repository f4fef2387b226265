"""Biases and masks of attention that is written out: what one call is given, and what may hide all keys of a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn

from longhand.capture.known.biases import mask_of

aten = torch.ops.aten
Captured = Callable[..., Any]
BATCH, HEADS, SEQ, DIM = 2, 3, 7, 8
SCALE = DIM**-0.5


def calls(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.target is aten.scaled_dot_product_attention.default]


def heads(*shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q, k, v = (torch.randn(shape or (BATCH, HEADS, SEQ, DIM)) for _ in range(3))
    return q, k, v


class Learned(nn.Module):
    """A bias for each head."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(shape or (HEADS, SEQ, SEQ)))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT * SCALE + self.bias).softmax(-1) @ v


class Scaled(Learned):
    """Scaled after it was added; and two of them."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (((q @ k.mT + self.bias) * SCALE) - self.bias[0]).softmax(-1) @ v


class Added(Learned):
    """By the product itself."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (one.reshape(BATCH * HEADS, SEQ, DIM) for one in (q, k, v))
        return torch.baddbmm(self.bias[:1], q, k.mT, beta=2, alpha=0.3).softmax(-1) @ v


class Windows(nn.Module):
    """Windows of images: a bias of a table for each head, and a mask for each window, as Swin has them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(13, HEADS))
        self.register_buffer("places", torch.randint(13, (SEQ, SEQ)))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.mT
        bias = self.table[self.places.view(-1)].view(SEQ, SEQ, HEADS).permute(2, 0, 1).contiguous()
        scores = scores + bias.unsqueeze(0)
        window = torch.arange(2 * SEQ, device=q.device).view(2, SEQ) // 3
        mask = (window[:, None] - window[:, :, None]).float()
        mask = mask.masked_fill(mask != 0, -100.0)
        scores = scores.view(-1, 2, HEADS, SEQ, SEQ) + mask[:, None]
        return scores.view(-1, HEADS, SEQ, SEQ).softmax(-1) @ v


@pytest.mark.parametrize(
    "model",
    [
        Learned(),
        Learned(SEQ, SEQ),
        Learned(1, 1, SEQ),
        Learned(BATCH, 1, 1, SEQ),
        Scaled(),
        Added(),
        Windows(),
    ],
)
def test_biases(captured: Captured, model: nn.Module) -> None:
    q, k, v = heads(4, HEADS, SEQ, DIM) if isinstance(model, Windows) else heads()
    (call,) = calls(captured(model, (q, k, v)).graph)
    mask = mask_of(call)
    assert mask is not None and mask.meta["val"].dim() in (2, 4)


def test_a_bias_that_is_the_same_for_all_keys_stays_as_written(captured: Captured) -> None:
    assert not calls(captured(Learned(HEADS, SEQ, 1), heads()).graph)


def causal(number: float) -> Any:
    def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        later = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
        return (q @ k.mT * SCALE).masked_fill(later, number).softmax(-1) @ v

    return masked


def causal_sum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    later = torch.full((SEQ, SEQ), -math.inf).triu(1)
    return (q @ k.mT * SCALE + later).softmax(-1) @ v


@pytest.mark.parametrize(
    "form", [causal(-math.inf), causal(torch.finfo(torch.float32).min), causal(-1e9), causal_sum]
)
def test_a_causal_mask_is_proven(captured: Captured, form: Any) -> None:
    (call,) = calls(captured(form, heads()).graph)
    assert mask_of(call) is None and call.kwargs["is_causal"] is True


def test_a_number_that_leaves_something_of_a_score_stays_as_written(captured: Captured) -> None:
    assert not calls(captured(causal(-20.0), heads()).graph)


def kept(number: float) -> Any:
    def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        scores = q @ k.mT * SCALE
        return torch.where(keep[:, None, None], scores, number).softmax(-1) @ v

    return masked


KEEP = torch.tensor([[True] * 5 + [False] * 2, [False] * 7])


def test_a_finite_number_may_hide_all_keys(captured: Captured) -> None:
    least = torch.finfo(torch.float32).min
    graph = captured(kept(least), (*heads(), KEEP)).graph
    assert len(calls(graph)) == 1


def hides_all(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    place = torch.arange(SEQ)
    return (q @ k.mT).masked_fill(place >= place[:, None], -math.inf).softmax(-1) @ v


def by_sum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT + bias[:, None, None]).softmax(-1) @ v


def of_numbers(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    bias = (1.0 - keep.float()) * torch.finfo(torch.float32).min
    return (q @ k.mT + bias[:, None, None]).softmax(-1) @ v


def twice(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Two least numbers are minus infinity."""
    bias = (1.0 - keep.float()) * torch.finfo(torch.float32).min
    return (q @ k.mT + bias[:, None, None] + bias[:, None, None]).softmax(-1) @ v


def test_a_row_without_keys_is_nan_as_in_eager(captured: Captured) -> None:
    """Minus infinity for every key: one call would yield zeros."""
    infinite = torch.zeros(BATCH, SEQ).masked_fill(~KEEP, -math.inf)
    for form, given in (
        (hides_all, heads()),
        (kept(-math.inf), (*heads(), KEEP)),
        (by_sum, (*heads(), infinite)),
        (twice, (*heads(), KEEP)),
        (of_numbers, (*heads(), KEEP.long() - 1)),
    ):
        assert not calls(captured(form, given).graph), form


def test_a_mask_of_bools_that_became_numbers_is_finite(captured: Captured) -> None:
    assert len(calls(captured(of_numbers, (*heads(), KEEP)).graph)) == 1


class Held(nn.Module):
    """A mask in a buffer, which is in the state_dict or not."""

    def __init__(self, mask: torch.Tensor, persistent: bool) -> None:
        super().__init__()
        self.register_buffer("mask", mask, persistent=persistent)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT + self.mask).softmax(-1) @ v


def test_a_mask_that_the_unit_holds_is_looked_at(captured: Captured) -> None:
    mask = torch.full((SEQ, SEQ), -math.inf).triu(1)
    hiding = mask.clone()
    hiding[2] = -math.inf
    for held, persistent, is_one in ((mask, False, True), (mask, True, False), (hiding, False, False)):
        assert bool(calls(captured(Held(held, persistent), heads()).graph)) is is_one
