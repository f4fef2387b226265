"""check.py draws positions that the model may be given: differences of them pick from tables, too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.verify.checking import check_kernels


class Boxes(nn.Module):
    """As in LayoutLM: a table for where a box begins, one for how high it is."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.heights = nn.Embedding(40, 16), nn.Embedding(40, 16)

    def forward(self, boxes: torch.Tensor) -> torch.Tensor:
        return self.places(boxes[:, :, 0]) * torch.tanh(self.heights(boxes[:, :, 2] - boxes[:, :, 0]))


class FromTheEnd(Boxes):
    def forward(self, boxes: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.heights(boxes[:, 0] - boxes[:, -1]))


class Shifted(Boxes):
    """The first two rows of the table are for something else."""

    def forward(self, boxes: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.places(boxes + 2)) + torch.tanh(self.heights(boxes - 1))


class Unordered(Boxes):
    def forward(self, boxes: torch.Tensor) -> torch.Tensor:
        there, back = boxes[:, 0] - boxes[:, 1], boxes[:, 1] - boxes[:, 0]
        return torch.tanh(self.places(there)) + torch.tanh(self.heights(back))


ORDERED = torch.arange(30).view(2, 5, 3)
CASES = {
    "Boxes": (Boxes, ORDERED, "randint(0, 40, (2, 5, 3), dtype=torch.int64).sort(-1).values"),
    "FromTheEnd": (
        FromTheEnd,
        ORDERED.flip(1),
        "randint(0, 40, (2, 5, 3), dtype=torch.int64).sort(1, descending=True).values",
    ),
    "Shifted": (Shifted, 1 + ORDERED, "randint(1, 38, (2, 5, 3), dtype=torch.int64)"),
    "Unordered": (Unordered, 0 * ORDERED, "randint(0, 1, (2, 5, 3), dtype=torch.int64)"),
}


@pytest.mark.parametrize("case", CASES)
def test_positions_are_rows_of_their_tables(case: str, tmp_path: Path) -> None:
    model, boxes, drawn = CASES[case]
    longhand.generate(model().eval(), (boxes,), out=tmp_path / "unit", device="cpu")
    text = (tmp_path / "unit" / "check.py").read_text()
    assert drawn in " ".join(text.split()), text[text.index("def make_arguments") :][:300]
    assert all(one.is_right for one in check_kernels(tmp_path / "unit", (), ()).kernels)
