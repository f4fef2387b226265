"""Attention that is written out: which forms are one call that computes what eager does, and which stay as written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn

from longhand.capture.frontends.export import capture_export
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


def test_nothing_to_look_at_stays_as_written() -> None:
    some, none = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 0, 8)
    for given in ((none, none, none), (some, none, none), (none, some, some)):
        assert not calls(capture_export(plain, given, target=Target(Device.CPU)).graph)


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


@pytest.mark.parametrize("target", [Target(Device.CPU), Target(Device.CUDA, "sm_90")])
def test_channels_that_lie_apart_stay(target: Target) -> None:
    """A product reads them as they are: a copy of each would cost what one call saves."""

    def of_images(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return v @ (q.mT @ k * SCALE).softmax(-1).mT

    assert not calls(capture_export(of_images, heads(BATCH, HEADS, DIM, SEQ), target=target).graph)


def test_the_gpus_kernels_take_values_of_another_width() -> None:
    graph = capture_export(narrow_values, heads(), target=Target(Device.CUDA, "sm_90")).graph
    assert len(calls(graph)) == 1


def test_a_product_of_two_matrices_has_no_heads(captured: Captured) -> None:
    q, k, v = torch.randn(7, 8), torch.randn(7, 8), torch.randn(7, 8)
    assert not calls(captured(plain, (q, k, v)).graph)
