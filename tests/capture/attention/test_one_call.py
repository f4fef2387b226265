"""Attention that is written out: which forms are one call that computes what eager does, and which stay as written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn

from longhand.capture.frontends.export import capture_export
from longhand.capture.known.biases import mask_of
from longhand.options import Device, Target

aten = torch.ops.aten
Captured = Callable[..., Any]
BATCH, HEADS, SEQ, DIM = 2, 3, 7, 8
SCALE = DIM**-0.5


def calls(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.target is aten.scaled_dot_product_attention.default]


def heads(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q, k, v = (torch.randn(shape or (BATCH, HEADS, SEQ, DIM), dtype=dtype) for _ in range(3))
    return q, k, v


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.transpose(-2, -1) * SCALE).softmax(-1) @ v


def scaled_queries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return ((q * 0.3) @ k.transpose(-2, -1)).softmax(-1) @ v


def scaled_keys(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ (k * 0.3).mT, dim=3) @ v


def divided_scores(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.matmul(nn.functional.softmax(torch.matmul(q, k.mT) / 3.0, dim=-1), v)


def scaled_everywhere(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = (q / 2) @ (k * 0.9).mT
    return (scores / math.sqrt(DIM) * 2).softmax(-1) @ v


def in_a_batch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = (one.reshape(BATCH * HEADS, SEQ, DIM) for one in (q, k, v))
    weights = torch.bmm(q * SCALE, k.transpose(1, 2)).softmax(-1)
    return torch.bmm(weights, v).view(BATCH, HEADS, SEQ, DIM)


def baddbmm(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = (one.reshape(BATCH * HEADS, SEQ, DIM) for one in (q, k, v))
    scores = torch.baddbmm(torch.zeros(1, 1, SEQ), q, k.mT, beta=0, alpha=0.3)
    return torch.bmm(scores.softmax(-1), v).view(BATCH, HEADS, SEQ, DIM)


def einsum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * SCALE
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


def einsum_by_position(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * SCALE
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).transpose(1, 2)


def einsum_values_first(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    weights = torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1)
    return torch.einsum("bhjd,bhij->bhid", v, weights)


def channels_first(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """As images are: the last dimension is positions."""
    q, k, v = (one.transpose(2, 3).contiguous() for one in (q, k, v))
    weights = (q.transpose(2, 3) @ k * SCALE).softmax(-1)
    return v @ weights.transpose(2, 3)


def turned_scores(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (k @ q.mT * SCALE).mT.softmax(-1) @ v


def one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = q[:, 0], k[:, 0], v[:, 0]
    return (q @ k.mT * SCALE).softmax(-1) @ v


def in_float32(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.mT * SCALE
    return torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v


def cast_before(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return ((q @ k.mT).float() * SCALE).softmax(-1).type_as(v) @ v


def several_leading(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return plain(
        *(one.unflatten(2, (2, -1)).repeat(1, 1, 1, 2, 1) for one in (q[:, :, :6], k[:, :, :6], v[:, :, :6]))
    )


def shared_keys(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """One head of keys and values for all: einsum makes rows of a batch's heads."""
    k, v = k[:, 0], v[:, 0]
    scores = torch.einsum("bhid,bjd->bhij", q, k) * SCALE
    return torch.einsum("bhij,bjd->bhid", scores.softmax(-1), v)


def broadcast_keys(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return plain(q, k[:1], v[:, :, :, :])


FORMS = [
    plain,
    scaled_queries,
    scaled_keys,
    divided_scores,
    scaled_everywhere,
    in_a_batch,
    baddbmm,
    einsum,
    einsum_by_position,
    einsum_values_first,
    channels_first,
    turned_scores,
    one_head,
    several_leading,
    shared_keys,
    broadcast_keys,
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_forms(captured: Captured, form: Any) -> None:
    graph = captured(form, heads()).graph
    assert len(calls(graph)) == 1
    assert not any(
        node.target in (aten.softmax.int, aten.bmm.default, aten.matmul.default) for node in graph.nodes
    )
    assert all(call.meta["provenance"].remark for call in calls(graph))


@pytest.mark.parametrize("form", [plain, scaled_queries, scaled_keys, divided_scores, einsum])
def test_nothing_is_scaled_by_a_kernel(captured: Captured, form: Any) -> None:
    graph = captured(form, heads()).graph
    assert not any(node.target in (aten.mul.Tensor, aten.div.Tensor) for node in graph.nodes)


@pytest.mark.parametrize("form", [plain, in_float32, cast_before])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves(form: Any, dtype: torch.dtype) -> None:
    """Closer to float64 than eager, which rounds scores and weights."""
    given = heads(dtype=dtype)
    graph = capture_export(form, given, target=Target(Device.CPU)).graph
    (call,) = calls(graph)
    assert call.meta["val"].dtype is dtype
    namespace: dict[str, Any] = {}
    exec(compile(str(capture_export(form, given, target=Target(Device.CPU))), "<graph>", "exec"), namespace)
    (found,) = namespace["forward"](*given)
    exact = plain(*(one.double() for one in given))
    assert (found.double() - exact).abs().max() <= (form(*given).double() - exact).abs().max() * 1.5


def test_float64_on_the_cpu(captured: Captured) -> None:
    assert len(calls(captured(plain, heads(dtype=torch.float64)).graph)) == 1


def test_cross_attention(captured: Captured) -> None:
    q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 11, 8), torch.randn(2, 3, 11, 8)
    assert len(calls(captured(plain, (q, k, v)).graph)) == 1
    assert len(calls(captured(einsum, (q, k, v)).graph)) == 1


def test_sizes_that_vary(captured: Captured) -> None:
    batch, seq = torch.export.Dim("batch"), torch.export.Dim("seq", min=3)
    shapes = {name: {0: batch, 2: seq} for name in "qkv"}
    for form in (plain, einsum):
        fresh = (heads(5, HEADS, 13, DIM), {})
        assert len(calls(captured(form, heads(), dynamic_shapes=shapes, fresh=fresh).graph)) == 1


# -- what stays as written -----------------------------------------------------------------------------------------


def weights_returned(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    weights = (q @ k.mT).softmax(-1)
    return weights @ v, weights


def scores_read(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    scores = q @ k.mT
    return scores.softmax(-1) @ v, scores.sum()


def over_queries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return (q @ k.mT).softmax(-2) @ v


def wrong_side(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return (q @ k.mT).softmax(-1).mT @ v


def over_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    """Talking heads: what is summed over are heads."""
    weights = torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1)
    mixed = torch.einsum("bhij,hg->bgij", weights, weights[0, :, :3, 0])
    return mixed @ v


def unknown_factor(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return (q @ k.mT * v.sum()).softmax(-1) @ v


def drawn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return torch.dropout((q @ k.mT).softmax(-1), 0.5, True) @ v


def negative_factor(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return (q @ k.mT * -1.0).softmax(-1) @ v


def rounded_weights(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return (q @ k.mT).softmax(-1).to(torch.bfloat16).float() @ v


def narrow_values(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return plain(q, k, v[..., :4])


def wide_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return plain(*(one.repeat(1, 1, 1, 40) for one in (q, k, v)))


STAYS = [
    weights_returned,
    scores_read,
    over_queries,
    wrong_side,
    over_heads,
    unknown_factor,
    negative_factor,
    rounded_weights,
    narrow_values,
    wide_heads,
]


@pytest.mark.parametrize("form", STAYS, ids=lambda form: form.__name__)
def test_what_stays_as_written(captured: Captured, form: Any) -> None:
    graph = captured(form, heads()).graph
    assert not calls(graph) and any(node.target is aten.softmax.int for node in graph.nodes)


def test_dropout_that_draws_stays() -> None:
    assert not calls(capture_export(drawn, heads(), target=Target(Device.CPU)).graph)


@pytest.mark.parametrize(
    ("dtype", "channels", "is_one"),
    [
        (torch.float32, 8, True),
        (torch.float32, 6, False),
        (torch.bfloat16, 8, True),
        (torch.bfloat16, 12, False),
        (torch.float64, 8, False),
    ],
)
def test_what_the_gpus_kernels_take(dtype: torch.dtype, channels: int, is_one: bool) -> None:
    given = heads(BATCH, HEADS, SEQ, channels, dtype=dtype)
    graph = capture_export(plain, given, target=Target(Device.CUDA, "sm_90")).graph
    assert bool(calls(graph)) is is_one


def test_the_gpus_kernels_take_values_of_another_width() -> None:
    graph = capture_export(narrow_values, heads(), target=Target(Device.CUDA, "sm_90")).graph
    assert len(calls(graph)) == 1


# -- biases and masks ----------------------------------------------------------------------------------------------


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
