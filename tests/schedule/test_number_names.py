"""Numbers that a statement writes out have a name made of what it writes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.schedule.names.number_names import _named_numbers, compared_attribute


@pytest.mark.parametrize(
    ("written", "value", "name"),
    [
        ("math.sqrt(2.0 / math.pi)", math.sqrt(2.0 / math.pi), "SQRT_2_OVER_PI"),
        ("2 * math.pi", 2 * math.pi, "TWO_PI"),
        ("np.sqrt(2)", math.sqrt(2), "SQRT_2"),
        ("1 / math.sqrt(2.0)", 1 / math.sqrt(2.0), "ONE_OVER_SQRT_2"),
        ("math.log(2)", math.log(2), "LOG_2"),
    ],
)
def test_a_number_that_is_written_out(written: str, value: float, name: str) -> None:
    assert _named_numbers("", f"y = x * ({written}) + 1")[value] == name


def test_its_reciprocal_is_what_is_multiplied_by() -> None:
    assert _named_numbers("", "y = x / math.sqrt(2.0)")[1 / math.sqrt(2.0)] == "ONE_OVER_SQRT_2"


@pytest.mark.parametrize(
    "statement", ["y = x * 2.0 / 3", "y = math.sqrt(x)", "y = x * 0.044715", "y = f(2)(3)"]
)
def test_a_plain_number_or_a_value_has_none(statement: str) -> None:
    assert _named_numbers("", statement) == {}


def test_what_is_no_number_is_passed_over() -> None:
    found = _named_numbers(
        "", "y = x if math.exp(math.exp(9)) else 2 / math.log(1) + math.sqrt(math.log(1) - 1)"
    )
    assert set(found.values()) == {"EXP_9", "ONE_OVER_EXP_9"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("math.sqrt(2 / math.pi)", "math.sqrt(2) / math.pi"),
        ("2 / (3 * math.pi)", "2 / 3 * math.pi"),
        ("1 / math.sqrt(2) / math.pi", "1 / math.sqrt(2 / math.pi)"),
    ],
)
def test_no_word_stands_for_two_numbers(one: str, other: str) -> None:
    values = {word: value for value, word in _named_numbers("", f"y = x * ({one})").items()}
    others = {word: value for value, word in _named_numbers("", f"y = x * ({other})").items()}
    assert all(values[word] == others[word] for word in values.keys() & others.keys())


class EndsAt(nn.Module):
    """Of each text the place of its end."""

    def __init__(self, eos_token_id: int) -> None:
        super().__init__()
        self.eos_token_id = eos_token_id

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return (ids == self.eos_token_id).int().argmax(-1)


@pytest.mark.parametrize("eos", [1, 98])
def test_a_whole_number_that_is_compared_with_has_the_name_of_the_attribute(eos: int, tmp_path: Path) -> None:
    ids = torch.tensor([[3, eos, 4], [5, 6, eos]])
    longhand.generate(EndsAt(eos), (ids,), out=tmp_path / "unit")
    texts = [path.read_text() for path in (tmp_path / "unit/kernels").glob("*.cpp")]
    assert any(f"EOS_TOKEN_ID = {eos}" in text and "== EOS_TOKEN_ID" in text for text in texts)
    assert longhand.load(tmp_path / "unit")()(ids).tolist() == [1, 2]


@pytest.mark.parametrize(
    "statement",
    [
        "x = ids == pad",  # a local may be a tensor
        "x = self.a == self.b",
        "x = (ids == self.pad) & (ids == self.eos)",
        "x = 0 < ids < self.n_words",
        "if ids == self.pad:",
    ],
)
def test_what_may_be_another_number_has_no_name(statement: str) -> None:
    assert compared_attribute(statement) == ""
