"""The first programs: attention, a norm, views in between."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F

import longhand
from longhand.lower.ir import Load, Reduce, Scalar
from longhand.lower.printing import print_program


def test_exp_normalized_attention(check):
    def attention(x, w_q, w_k, w_v):
        q, k, v = x @ w_q, x @ w_k, x @ w_v
        scores = torch.exp(q @ k.transpose(-2, -1))
        return (scores / scores.sum(-1, keepdim=True)) @ v

    x, *weights = (torch.randn(2, 6, 8) * 0.3, *(torch.randn(8, 8) * 0.3 for _ in range(3)))
    result = check(attention, x, *weights, externs=5)
    text = print_program(result.program)
    assert "exp(" in text and "sum(" in text and ".transpose(" in text


def test_softmax_has_roles(check):
    result = check(lambda x: torch.softmax(x, -1), torch.randn(3, 7))
    (nest,) = result.nests
    assert {value.name for value in nest.body} >= {"row_max", "numerator", "denominator"}


def test_softmax_over_a_middle_dimension(check):
    check(lambda x: torch.softmax(x.transpose(0, 2), 1), torch.randn(3, 7, 4))


def test_layer_norm(check):
    x, weight, bias = torch.randn(2, 3, 16), torch.randn(16), torch.randn(16)
    result = check(lambda x, w, b: F.layer_norm(x, (16,), w, b), x, weight, bias)
    (nest,) = result.nests
    (eps,) = [value for value in nest.body if isinstance(value, Scalar)]
    assert eps.name == "eps" and eps.value == 1e-5
    assert {value.name for value in nest.body} >= {"mean", "variance", "rstd"}


def test_views_are_folded_into_loads(check):
    def heads(x):
        batch, seq, _ = x.shape
        q, k = x.chunk(2, -1)
        q = q.view(batch, seq, 4, 2).transpose(1, 2)
        k = k.view(batch, seq, 4, 2).transpose(1, 2)
        return q * k.flip(3)

    result = check(heads, torch.randn(2, 5, 16))
    assert len(result.nests) == 1


def test_merged_dimension_is_two_axes(check):
    result = check(lambda x: x.transpose(1, 2).reshape(2, 5, 12) + 1, torch.randn(2, 3, 5, 4).contiguous())
    assert all(isinstance(nest.body[0], Load) for nest in result.nests)


def test_reductions_multi_axis(check):
    x = torch.randn(3, 4, 5)
    check(lambda x: (x.sum((0, 2)), x.mean((1,), keepdim=True), x.amax(-1), x.argmax(1), x.var(0)), x)


def test_bfloat16_computes_in_float32(check):
    x = torch.randn(4, 33).bfloat16()
    result = check(lambda x: torch.softmax(x, -1), x)
    assert all(value.dtype is torch.float32 for value in result.nests[0].body if isinstance(value, Reduce))


def test_symbolic_sizes(check):
    def function(x, w):
        return torch.softmax(x.view(x.shape[0], x.shape[1], 4, 2).transpose(1, 2), -1) * w

    result = check(function, torch.randn(3, 5, 8), torch.randn(2), symbolic=True)
    text = print_program(result.program)
    assert "batch" in text and "seq" in text


def test_a_count_of_elements_outlives_the_values_that_were_summed(tmp_path: Path) -> None:
    """One norm is summed along an axis that the other only counts, in one nest, and the first becomes dead."""

    def similarity(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cosine_similarity(a * 2, b * 3, dim=-2)

    a, b = torch.randn(1, 2, 3, dtype=torch.float64), torch.randn(2, 1, 3, dtype=torch.float64)
    longhand.generate(similarity, (a, b), out=tmp_path / "unit")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(a, b), similarity(a, b))
