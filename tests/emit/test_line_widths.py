"""Lines that no formatter breaks are no longer than others: what a kernel's tensors may be stands above them then."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.emit.text.places import lines_above

WIDEST = 110


class LongWinded(nn.Module):
    """A sum over heads that are moved, written where what it is the sum of was."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(24, 48), nn.Linear(48, 8)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        projected_states_of_all_of_the_heads_of_this_layer = self.project(x).view(2, 7, 3, 16)
        states_of_all_heads_beside_their_residuals = (
            projected_states_of_all_of_the_heads_of_this_layer + residual
        )
        normalized_states_of_all_heads_beside_residuals = F.softmax(
            states_of_all_heads_beside_their_residuals, dim=-1
        )
        return self.out(normalized_states_of_all_heads_beside_residuals.reshape(2, 7, 48))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_a_result_may_be_is_told_above_it_where_the_line_were_too_long(
    device: str, tmp_path: Path
) -> None:
    given = torch.randn(2, 7, 24), torch.randn(7, 3, 16)
    longhand.generate(
        LongWinded().eval(),
        given,
        out=tmp_path / "unit",
        device=device,
        arch="sm_90" if device == "cuda" else None,
        run=device == "cpu",
    )
    written = [path for path in (tmp_path / "unit").rglob("*") if ".base" not in path.parts]
    texts = [
        path.read_text() for path in written if path.suffix in (".py", ".cpp") and path.name != "runtime.py"
    ]
    assert [line for text in texts for line in text.splitlines() if len(line) > WIDEST] == []
    assert any(re.search(r"^    (#|//) may be \w+:\n    \S.*states", text, re.M) for text in texts)


def test_long_words_are_told_in_several_lines() -> None:
    assert lines_above(["x", "y"], 80) == ("may be x or y:",)
    assert lines_above(["hidden_states", "residual"], 24) == ("may be hidden_states or", "residual:")
    assert lines_above([], 80) == ()
