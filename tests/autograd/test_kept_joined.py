"""What is joined for a matrix product: kept as it is, or as its parts where that is less."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.autograd.test_kept_parts import cut, saved, written

BATCH, WIDTH, ROWS = 6, 8, 20


class Tables(nn.Module):
    """Rows of several tables, joined, and their products two by two.

    Args:
        n_tables: How many.
        n_read: Of how many the derivative reads the rows by themselves, too.
    """

    def __init__(self, n_tables: int, n_read: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(n_tables))
        self.n_read = n_read

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        rows = [table(positions[:, k]) for k, table in enumerate(self.tables)]
        joined = torch.stack(rows, 1)
        products = torch.bmm(joined, joined.transpose(1, 2))
        return products.sum((1, 2)) + sum(row.sin().sum(1) for row in rows[: self.n_read])


class Beside(nn.Module):
    """A product of what two products made, one of which is kept anyway."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(2 * WIDTH, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.first(x), self.second(x)
        return self.head(torch.cat([first, second], 1)) + first.sin().sum(1, keepdim=True)


def positions(n_tables: int) -> torch.Tensor:
    return torch.randint(ROWS, (BATCH, n_tables))


@pytest.mark.parametrize("n_read", [0, 1])
def test_the_whole_is_kept_and_none_of_its_parts_for_it(n_read: int) -> None:
    shapes = [shape for _, shape in saved(cut(Tables(20, n_read), positions(20)))]
    assert sorted(shapes, key=len) == [(BATCH, WIDTH)] * n_read + [(BATCH, 20, WIDTH)]


def test_parts_that_are_read_anyway_are_not_kept_twice() -> None:
    shapes = [shape for _, shape in saved(cut(Tables(20, n_read=20), positions(20)))]
    assert shapes == [(BATCH, WIDTH)] * 20


def test_half_of_the_whole_is_less_than_the_whole() -> None:
    shapes = [shape for _, shape in saved(cut(Beside(), torch.randn(BATCH, WIDTH)))]
    assert shapes == [(BATCH, WIDTH)] * 2


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("n_read", [1, 20])
def test_both_give_eagers_gradients(n_read: int, device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = written(Tables(20, n_read), (positions(20),), tmp_path / "unit", device)
    assert ("# again" in text) == (n_read == 20)
