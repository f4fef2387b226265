"""What attention is called with, and that it computes what eager computes: masks that are proven, masks that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from longhand.capture.frontends.export import capture_export
from longhand.capture.graph import InputKind
from longhand.capture.known import tables
from longhand.capture.known.biases import make_biases, mask_of
from longhand.capture.known.deduction import facts_of
from longhand.emit.module.constants import literal_of
from longhand.options import Device, Target

aten = torch.ops.aten
Captured = Callable[..., Any]


def attention_calls(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.target is aten.scaled_dot_product_attention.default]


def is_causal(call: fx.Node) -> bool:
    return bool(call.args[5] if len(call.args) > 5 else call.kwargs.get("is_causal", False))


def two_layers(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    x = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def causal_mask(x: torch.Tensor) -> torch.Tensor:
    place = torch.arange(x.shape[2])
    return place <= place[:, None]


def window_mask(x: torch.Tensor, width: int = 3) -> torch.Tensor:
    place = torch.arange(x.shape[2])
    return causal_mask(x) & (place > place[:, None] - width)


def causal(x: torch.Tensor) -> torch.Tensor:
    return two_layers(x, causal_mask(x))


def causal_of_numbers(x: torch.Tensor) -> torch.Tensor:
    least = torch.finfo(x.dtype).min
    return two_layers(x, torch.full((x.shape[2], x.shape[2]), least, dtype=x.dtype).triu(1))


def causal_repeated(x: torch.Tensor) -> torch.Tensor:
    place = torch.arange(x.shape[2]).unsqueeze(0).repeat(x.shape[0], 1)
    return two_layers(x, (place[:, None, :] <= place[:, :, None])[:, None])


def everything(x: torch.Tensor) -> torch.Tensor:
    place = torch.arange(x.shape[2])
    return two_layers(x, (place == place)[None, :] & (place[:, None] >= 0))


def window(x: torch.Tensor) -> torch.Tensor:
    return two_layers(x, window_mask(x))


def strictly_before(x: torch.Tensor) -> torch.Tensor:
    """Nothing is kept in the first row."""
    place = torch.arange(x.shape[2])
    return two_layers(x, place < place[:, None])


def last_queries(x: torch.Tensor) -> torch.Tensor:
    """Fewer queries than keys: is_causal would align them at the other end."""
    queries, place = x[:, :, 2:], torch.arange(x.shape[2])
    return F.scaled_dot_product_attention(queries, x, x, attn_mask=place <= place[2:, None])


def first_queries(x: torch.Tensor) -> torch.Tensor:
    place = torch.arange(x.shape[2])
    return F.scaled_dot_product_attention(x[:, :, :4], x, x, attn_mask=place <= place[:4, None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (causal, "causal"),
        (causal_of_numbers, "causal"),
        (causal_repeated, "causal"),
        (everything, "nothing"),
        (window, "mask"),
        (strictly_before, "mask"),
        (last_queries, "mask"),
        (first_queries, "mask"),
    ],
)
def test_of_indices(captured: Captured, program: Any, expected: str, is_dynamic: bool, dtype: Any) -> None:
    shapes = {"x": {0: torch.export.Dim("batch"), 2: torch.export.Dim("seq", min=6)}} if is_dynamic else None
    x = torch.randn(2, 2, 7, 8, dtype=dtype)
    fresh = ((torch.randn(3, 2, 11, 8, dtype=dtype),), {}) if is_dynamic else None
    graph = captured(program, (x,), dynamic_shapes=shapes, fresh=fresh).graph
    calls = attention_calls(graph)
    assert calls and all(is_causal(call) is (expected == "causal") for call in calls)
    masks = [mask_of(call) for call in calls]
    assert all((mask is None) is (expected != "mask") for mask in masks)
    assert all(mask is masks[0] and mask.meta["val"].dtype is dtype for mask in masks if mask is not None)


def with_padding(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    return two_layers(x, causal_mask(x) & keep.bool()[:, None, None, :])


def with_padding_alone(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The mask is as wide as the scores, the data only as wide as the keys."""
    every_query = torch.ones(x.shape[2], 1, dtype=torch.bool)
    return two_layers(x, every_query & keep.bool()[:, None, None, :])


def keeps(*rows: list[int]) -> torch.Tensor:
    return torch.tensor(rows)


PADDING = {
    "none": keeps([1] * 6, [1] * 6),
    "right": keeps([1] * 6, [1, 1, 1, 0, 0, 0]),
    "left": keeps([0, 0, 1, 1, 1, 1], [1] * 6),  # rows that keep nothing
    "all": keeps([0] * 6, [1] * 6),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("program", [with_padding, with_padding_alone])
def test_of_data(captured: Captured, program: Any, padding: str, dtype: torch.dtype) -> None:
    """One bias in the dtype of the queries, for both layers; rows that keep nothing are as in eager."""
    x = torch.randn(2, 2, 6, 8, dtype=dtype)
    graph = captured(program, (x, PADDING["none"]), fresh=((x, PADDING[padding]), {})).graph
    first, second = (mask_of(call) for call in attention_calls(graph))
    assert first is second and first is not None and first.meta["val"].dtype is dtype
    n_rows = first.meta["val"].shape[-2]
    assert n_rows == (1 if program is with_padding_alone else 6)


@pytest.mark.parametrize("hidden", [float("nan"), float("inf")])
def test_nan_and_infinity_that_data_masks(captured: Captured, hidden: float) -> None:
    x = torch.randn(2, 2, 6, 8)
    x[1, :, 4] = hidden
    captured(with_padding, (torch.randn(2, 2, 6, 8), PADDING["none"]), fresh=((x, PADDING["right"]), {}))


def test_a_mask_of_the_caller_stays_as_it_is(captured: Captured) -> None:
    def once(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    x, mask = torch.randn(2, 2, 6, 8), torch.rand(6, 6) > 0.3
    (call,) = attention_calls(captured(once, (x, mask)).graph)
    assert mask_of(call).op == "placeholder"
    first, second = attention_calls(captured(two_layers, (x, mask)).graph)
    assert mask_of(first) is mask_of(second) and mask_of(first).meta["val"].dtype is torch.float32


def test_rows_of_a_bias_are_aligned_on_cuda(captured: Captured) -> None:
    x = torch.randn(2, 2, 6, 8)
    graph = captured(with_padding, (x, PADDING["right"])).graph
    given = {mask_of(call) for call in attention_calls(graph)}

    def emit(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        node = graph.call_function(target, args, kwargs)
        values = fx.node.map_arg((args, kwargs), lambda node: node.meta["val"])
        node.meta["val"] = target(*values[0], **values[1])
        return node

    make_biases(graph, emit, Device.CUDA)  # as if it had been captured for the other device
    for call in attention_calls(graph):
        mask = mask_of(call)
        assert mask not in given and mask.meta["val"].shape == (2, 1, 6, 6)
        assert all(stride % 16 == 0 for stride in mask.meta["val"].stride()[:-1])


def test_the_plainest_form(captured: Captured) -> None:
    """However the model said it: of each condition one comparison, of each index one arange."""

    def roundabout(x: torch.Tensor) -> torch.Tensor:
        place = torch.arange(x.shape[1]).expand(2, -1)
        runs = (torch.diff(place, prepend=place[:, :1] - 1) != 1).cumsum(-1)
        mask = (runs[:, :, None] == runs[:, None, :]) & (place[:, None, :] <= place[:, :, None])
        return x.masked_fill(~mask[:1, :, :], -1.0)

    graph = captured(roundabout, (torch.randn(1, 7, 7),)).graph
    kinds = [str(node.target) for node in graph.nodes if node in facts_of(graph)]
    assert sum("cumsum" in kind or "index" in kind for kind in kinds) == 0
    assert sum("aten.le" in kind for kind in kinds) == 1 and sum("arange" in kind for kind in kinds) == 2


def test_a_window_is_a_table_at_fixed_sizes(captured: Captured) -> None:
    graph = captured(window, (torch.randn(2, 2, 7, 8),))
    (entry,) = [entry for entry in graph.inputs if entry.kind is InputKind.CONSTANT]
    table = graph.constants[entry.target]
    place = torch.arange(7)
    kept = (place <= place[:, None]) & (place > place[:, None] - 3)
    assert torch.equal(table, torch.where(kept, 0.0, float("-inf")))
    assert all(mask_of(call).name == entry.node for call in attention_calls(graph.graph))
    remarks = {call.meta["provenance"].remark for call in attention_calls(graph.graph)}
    assert remarks == {"mask is kv <= q and q <= kv + 2, whatever the input: a table"}
    assert literal_of(table) == (
        'torch.where(torch.ones(7, 7, dtype=torch.bool).tril().triu(-2), 0.0, float("-inf"))'
    )


def test_the_rows_of_a_table_are_aligned_on_cuda() -> None:
    graph = capture_export(window, (torch.randn(2, 2, 7, 8),), target=Target(Device.CUDA, "sm_90"))
    (entry,) = [entry for entry in graph.inputs if entry.kind is InputKind.CONSTANT]
    assert graph.constants[entry.target].shape == (7, 16)
    assert all(mask_of(call).meta["val"].stride() == (16, 1) for call in attention_calls(graph.graph))


def test_a_large_window_is_made_in_each_call(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MOST_BYTES", 4 * 7 * 7 - 1)
    graph = captured(window, (torch.randn(2, 2, 7, 8),))
    assert not graph.constants and all(mask_of(call) is not None for call in attention_calls(graph.graph))
