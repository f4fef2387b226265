"""Sizes that are products of others are told by these, and by one dimension where one tells them."""

from __future__ import annotations

import re

import pytest
import sympy
import torch
from torch import nn

from benchmarks.readability.units import text_of
from longhand.emit.text.python_code import NameCode, whole_number
from longhand.emit.text.told_sizes import with_the_rest
from longhand.schedule.functions.call_records import variable_of_record


class Mixing(nn.Module):
    """Mixes along patches, then along features, of inputs whose first two sizes no statement names."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc, self.back = nn.LayerNorm(24), nn.Linear(20, 20), nn.Linear(24, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.fc(self.norm(x).transpose(2, 3))
        mixed = mixed * torch.softmax(mixed, -1)
        return self.back(x + mixed.transpose(2, 3))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Linear(5, 24)
        self.early, self.late = Mixing(), Mixing()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x.unfold(-2, 5, 5).transpose(-2, -3).transpose(-1, -2).transpose(-1, -2))
        return self.late(self.early(x))


@pytest.fixture(scope="module")
def backward() -> str:
    text = text_of((Model(), (torch.randn(2, 100, 3),), {}), "cuda", train=True)["backward.py"]
    return text[text.index("\ndef ") :]


def test_a_new_tensor_has_the_size_of_what_fills_it(backward: str) -> None:
    assert "new_empty(late_mixed.shape[:2].numel() * x_dim, mixed_dim)" in backward, backward
    assert "new_empty(back_out.shape[:2].numel() * mixed_dim, x_dim)" in backward, backward


def test_groups_of_rows_are_told_by_all_rows(backward: str) -> None:
    assert not re.search(r"n_(groups|lanes)=\d", backward), backward
    assert "n_lanes=d_normed.shape[0] // x_dim" in backward, backward
    assert "n_groups=normed.shape[0] // mixed_dim" in backward, (
        backward
    )  # by what is read, not by what is made


def test_one_dimension_tells_rows_before_a_product_does(backward: str) -> None:
    (norm,) = re.findall(r"\ndef norm_backward\(.*?\n(?=\ndef )", backward, re.DOTALL)
    assert "n_rows=d_normalized.shape[0]" in norm and ".numel()" not in norm, norm


def test_terms_of_a_gradient_go_by_the_weight(backward: str) -> None:
    assert "d_norm_weight_terms" in backward and "late_norm_weight" not in backward, backward


def test_a_view_leaves_its_only_number_to_the_others() -> None:
    def shape(sizes: list[int | str]) -> str:
        codes = [NameCode(one) if isinstance(one, str) else whole_number(one) for one in sizes]
        return ", ".join(
            map(str, with_the_rest(codes, [7 if isinstance(one, str) else one for one in sizes]))
        )

    assert shape(["batch", 1, 65]) == "batch, 1, -1"
    assert shape(["batch", 65, 70]) == "batch, 65, 70"
    assert shape(["batch", 3, "dim"]) == "batch, 3, dim"  # as the user says it
    assert shape([65, 2]) == "65, 2"
    assert shape([65]) == "65" and shape([0, 65]) == "0, 65" and shape([-1, 65]) == "-1, 65"


@pytest.mark.parametrize(
    ("path", "beside", "variable"),
    [
        ("encoder.inner.blocks.0", (), "saved_block_0"),
        ("encoder.stages.1.blocks.0.ffn", ("encoder.stages.0.blocks.0.ffn",), "saved_stage_1_block_0_ffn"),
        ("encoder.blocks.0", ("decoder.blocks.0",), "saved_encoder_blocks_0"),
        ("layer2.1", (), "saved_layer2_1"),
        ("encoder.attn", (), "saved_encoder_attn"),
    ],
)
def test_a_record_is_called_from_its_first_list_on(path: str, beside: tuple[str, ...], variable: str) -> None:
    assert variable_of_record(path, (), (path, *beside)) == variable


def test_beside_a_size_that_varies_the_number_stays() -> None:
    """``x.view(batch, -1)`` raises where the batch is empty."""
    given = (NameCode("batch"), whole_number(4160))
    assert with_the_rest(given, (sympy.Symbol("s0"), 4160)) == given
    assert with_the_rest(given, (2, 4160)) == (given[0], whole_number(-1))
