"""In a kernel no tensor is called after its caller's place in a list, where nothing else there has its word."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of
from longhand.schedule.names.shared.without_lists import without_lists
from longhand.schedule.names.words import GradientWord

OF_STAGE = {"stages.0.conv.1"}


def shortened(
    names: dict[str, str], written: set[str] | None = None, paths: set[str] | None = None
) -> dict[str, str]:
    return {**names, **without_lists(names, dict.fromkeys(names, paths or OF_STAGE), written or set())}


def test_the_place_goes_where_nothing_else_is_called_so() -> None:
    names = {"a": "stage_0_gate_out", "b": "stage_0_conv_1_act", "c": "gated"}
    assert shortened(names) == {"a": "gate_out", "b": "act", "c": "gated"}


def test_two_of_a_list_keep_their_places() -> None:
    names = {"a": "head_1_projected", "b": "head_2_projected"}
    assert shortened(names, paths={"heads.1", "heads.2"}) == names


def test_what_another_ends_in_takes_the_word_of_its_list() -> None:
    names = {"a": "shortcut_1_bias", "b": "bias"}
    assert shortened(names, paths={"shortcut.1.bias"}) == {"a": "shortcut_bias", "b": "bias"}


def test_a_value_and_its_gradient_have_one_word_then() -> None:
    made = shortened({"a": "stage_0_x", "b": GradientWord("stage_0_x")})
    assert made == {"a": "x", "b": "d_x"} and isinstance(made["b"], GradientWord)
    names = {"a": "stage_0_x", "b": GradientWord("x")}  # the gradient of another x
    assert shortened(names) == {"a": "stage_x", "b": "d_x"}


def test_what_is_read_is_no_out() -> None:
    names = {"a": "net_4_out"}
    assert shortened(names, paths={"net.4"}) == {"a": "net_out"}
    assert shortened(names, {"a"}, {"net.4"}) == {"a": "out"}


def test_a_number_of_the_users_stays() -> None:
    names = {"a": "ln_1_weight", "b": "stage_1_x"}
    assert shortened(names, paths={"h.0.ln_1.weight"}) == names


class Gated(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.gate = nn.Linear(width, width), nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(self.inner(x.mean(1, keepdim=True)))


class Stages(nn.Module):
    """Two of other widths, between which nothing is alike."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([Gated(16), Gated(24)])
        self.down = nn.Linear(16, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stages[1](self.down(self.stages[0](x)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_kernel_of_a_model_has_a_place_in_its_tensors_names(device: str) -> None:
    files = text_of((Stages(), (torch.randn(4, 7, 16),), {}), device, train=True)
    kernels = {
        path: text for path, text in files.items() if re.fullmatch(r"kernels/(?!__init__).*\.(py|cpp)", path)
    }
    placed = {path: found for path, text in kernels.items() if (found := re.findall(r"\w*stage_\d\w*", text))}
    assert "stage_0_gate_out" in files["model.py"] and not placed, placed
