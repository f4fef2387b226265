"""A number that a statement takes from its module or function stands at the top of a kernel under the user's word."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from longhand.lower.ir import PointwiseOp
from longhand.schedule.names.meanings.settings import _Tensors, _word_in


class Head(nn.Module):
    """Logits with a scale, weights with a floor."""

    def __init__(self) -> None:
        super().__init__()
        self.logit_scale = 0.0625
        self.norm_min = 1e-12

    def forward(self, logits: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = torch.tanh(logits) * self.logit_scale
        weights = weights / torch.clamp(weights.sum(-1, keepdim=True), min=self.norm_min)
        return logits, weights


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_number_of_the_module_has_its_word_at_the_top(emit: Any, device: str) -> None:
    files = emit(Head().eval(), (torch.randn(6, 48), torch.rand(6, 8)), device=device)
    text = "\n".join(str(one) for path, one in files.items() if path.startswith("kernels/"))
    assert "* LOGIT_SCALE" in text and "NORM_MIN" in text
    assert "* 0.0625" not in text.split("reference")[0]


@pytest.mark.parametrize(
    ("statement", "op", "value", "tensors", "word"),
    [
        ("logits = logits * self.logit_scale", PointwiseOp.MUL, 0.0625, {"logits"}, "LOGIT_SCALE"),
        ("weights *= self.config.route_scale", PointwiseOp.MUL, 2.5, {"weights"}, "ROUTE_SCALE"),
        ("scores = q @ k * scaling", PointwiseOp.MUL, 0.25, {"mm"}, "SCALING"),
        ("x = hidden[perm // num_top_k]", PointwiseOp.FLOOR_DIV, 2, {"perm"}, "NUM_TOP_K"),
        ("x = x.clamp(min=-self.limit, max=self.limit)", PointwiseOp.MAXIMUM, -7.0, {"x"}, "MINUS_LIMIT"),
        ("x = x.clamp(min=-self.limit, max=self.limit)", PointwiseOp.MINIMUM, 7.0, {"x"}, "LIMIT"),
        # Nothing tells which of these the number is.
        ("y = x * 0.25 * self.scale", PointwiseOp.MUL, 0.25, {"x"}, ""),
        ("y = a * b", PointwiseOp.MUL, 0.25, {"mul"}, ""),
        ("y = f(x) * g(x)", PointwiseOp.MUL, 0.25, {"f"}, ""),
        ("y = x * self.a + x * self.b", PointwiseOp.MUL, 0.25, {"x"}, ""),
        ("y = x * f(2)", PointwiseOp.MUL, 0.25, {"x"}, ""),
        # The side that is computed is the number.
        ("x = scores / math.sqrt(self.head_dim)", PointwiseOp.DIV, 4.0, {"d_x"}, ""),
        ("x = scores * self.head_dim**-0.5", PointwiseOp.MUL, 0.25, {"d_x"}, ""),
        ("for x in y:", PointwiseOp.MUL, 0.25, {"x"}, ""),
    ],
)
def test_the_word_that_a_statement_has_for_a_number(
    statement: str, op: PointwiseOp, value: float, tensors: set[str], word: str
) -> None:
    assert _word_in(statement, op, value, _Tensors(frozenset(tensors), frozenset(), True)) == word


def test_an_attribute_beside_what_the_call_is_given_may_be_a_tensor() -> None:
    tensors = _Tensors(frozenset({"w"}), frozenset(), are_computed=False)
    assert _word_in("y = factor * self.weight", PointwiseOp.MUL, 0.25, tensors) == ""


def test_what_the_module_holds_is_no_number() -> None:
    """Of a weight and a number, both attributes, the number is the other one, converted or not."""
    tensors = _Tensors(frozenset({"gamma"}), frozenset({"gamma"}), are_computed=False)
    statement = "gamma = self.gamma + float(self.unit_offset)"
    assert _word_in(statement, PointwiseOp.ADD, 1.0, tensors) == "UNIT_OFFSET"
    assert _word_in("gamma = self.gamma + f(1)", PointwiseOp.ADD, 1.0, tensors) == ""


class Offset(nn.Module):
    """A norm whose weights are kept as what they are off one."""

    def __init__(self) -> None:
        super().__init__()
        self.unit_offset = True
        self.gamma = nn.Parameter(torch.zeros(48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gamma = self.gamma + float(self.unit_offset)
        return torch.tanh(x) * gamma


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_number_is_not_called_what_the_weight_is(emit: Any, device: str) -> None:
    files = emit(Offset().eval(), (torch.randn(6, 48),), device=device)
    text = "\n".join(str(one) for path, one in files.items() if path.startswith("kernels/"))
    assert "GAMMA" not in text and "UNIT_OFFSET" in text, text
