"""Numbers with pi in them are written so in references, and are the same floats."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.readability.units import text_of
from longhand.emit.text.numbers_of_pi import pi_text
from longhand.emit.text.reference_page import number_text


@pytest.mark.parametrize("value", [math.pi, -2 * math.pi, math.sqrt(2 / math.pi), 0.3989422804014327])
def test_the_text_is_the_same_number(value: float) -> None:
    text = number_text(value).text
    assert "torch.pi" in text
    assert eval(text) == value


@pytest.mark.parametrize("value", [3.14159, math.nextafter(math.pi, 4), 0.5, 1.0])
def test_other_numbers_have_no_pi(value: float) -> None:
    assert pi_text(value) is None and eval(number_text(value).text) == value


class Density(torch.nn.Module):
    """A normal density, and gelu's inner factor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) + torch.tanh(math.sqrt(2 / math.pi) * x)


def test_a_reference_has_no_digits_of_pi() -> None:
    texts = text_of((Density(), (torch.randn(3, 50),), {}), "cuda", train=False)
    (reference,) = [
        text.partition("\ndef reference(")[2]
        for path, text in texts.items()
        if path.startswith("kernels/") and "\ndef reference(" in text
    ]
    assert "torch.pi" in reference and "0.797" not in reference
