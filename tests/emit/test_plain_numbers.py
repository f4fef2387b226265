"""Numbers in a unit stand as a person writes them: a scale by its width, inverse frequencies by their base."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.emit.module.constants import literal_of


@pytest.mark.parametrize("n", [2, 4, 8, 32, 64])
@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6])
def test_inverse_frequencies_are_powers_of_their_base(n: int, base: float) -> None:
    table = 1.0 / (base ** (torch.arange(0, 2 * n, 2, dtype=torch.int64).float() / (2 * n)))
    text = literal_of(table)
    assert text == f"1.0 / ({base} ** (torch.arange(0, {2 * n}, 2) / {2 * n}))"
    assert torch.equal(eval(text), table)


@pytest.mark.parametrize("numbers", [[1.0, 0.5, 0.25], [1.0, 0.3, 0.01], [0.5, 0.05], [1.0, 0.0], [1.0, 1.0]])
def test_other_numbers_are_a_list(numbers: list[float]) -> None:
    assert "**" not in (literal_of(torch.tensor(numbers)) or "")


class Attention(nn.Module):
    """Attention with a scale."""

    def __init__(self, scale: float | None) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, scale=self.scale)


SCALES = {
    "1 / math.sqrt(width)": (1 / math.sqrt(12), ""),
    "width**-0.5, which is rounded otherwise": (12**-0.5, ""),
    "as for another width": (256**-0.5, "scale=256**-0.5"),
    "a part of what no head is as wide as": (4096**-0.5, "scale=1 / 64"),
    "a plain number": (0.3, "scale=0.3"),
    "one": (1.0, "scale=1.0"),
    "none": (None, ""),
}


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("why", SCALES)
def test_a_scale_of_attention(tmp_path: Path, why: str, train: bool) -> None:
    scale, expected = SCALES[why]
    given = tuple(torch.randn(1, 2, 5, 12, requires_grad=train) for _ in range(3))
    longhand.generate(
        Attention(scale), given, out=tmp_path / "unit", device="cuda", arch="sm_90", train=train
    )
    texts = [(tmp_path / "unit" / "model.py").read_text()]
    texts += [(tmp_path / "unit" / "backward.py").read_text()] if train else []
    for text in (re.sub(r"#.*", "", one) for one in texts):
        assert expected in text and ("scale=" in text) == bool(expected)
