"""The layer before a loop: it calls what the loop's layers share only where it is given the same."""

import pytest
import torch
from torch import nn

from tests.models.fresh_state import differences

HEIGHT, WIDTH, DIM = 4, 6, 16


class WindowBlock(nn.Module):
    """Attention's place works on windows of an image, the rest on its positions in a row: Swin's layout."""

    def __init__(self):
        super().__init__()
        self.norm, self.second_norm = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.mix = nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        batch, height, width, dim = x.shape
        windows = self.norm(x).view(batch, height // 2, 2, width // 2, 2, dim)
        mixed = self.mix(windows.permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, dim)).tanh()
        mixed = mixed.view(batch, height // 2, width // 2, 2, 2, dim).permute(0, 1, 3, 2, 4, 5)
        x = x + mixed.reshape(batch, height, width, dim)
        x = x.reshape(batch, -1, dim)
        x = x + self.down(nn.functional.gelu(self.up(self.second_norm(x))))
        return x.reshape(batch, height, width, dim)


class Windows(nn.Module):
    """Blocks behind a product whose result has as many dimensions as the blocks' input, or one less."""

    def __init__(self, is_flat):
        super().__init__()
        self.is_flat = is_flat
        self.merge = nn.Linear(DIM, DIM)
        self.blocks = nn.Sequential(*(WindowBlock() for _ in range(5)))

    def forward(self, x):
        merged = self.merge(x.flatten(1, 2) if self.is_flat else x)
        return self.blocks(merged.view(x.shape)).mean((1, 2))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("is_flat", [False, True])
def test_dimensions_of_what_the_first_layer_is_given(is_flat, train, tmp_path):
    torch.manual_seed(0)
    model, x = Windows(is_flat), torch.randn(2, HEIGHT, WIDTH, DIM)
    assert not differences(model, ((x,), {}), tmp_path / "unit", train=train)


class SortingBlock(nn.Module):
    """A library call of which one result is not read."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.back = nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)

    def forward(self, x):
        return x + self.back(self.mix(self.norm(x)).sort(-1).values)


def test_results_that_nothing_reads(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, DIM), nn.Sequential(*(SortingBlock() for _ in range(5))))
    assert not differences(model, ((torch.randn(3, DIM),), {}), tmp_path / "unit")
