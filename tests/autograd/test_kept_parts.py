"""What training keeps and adds up: parts of values, one state for each step, narrow indices, totals where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from benchmarks.models.written_out import GRUByHand
from longhand.capture.autograd.joint import differentiate
from longhand.capture.autograd.kept.partition import Partition, partition
from longhand.capture.frontends.export import capture_export
from longhand.options import Device, Target

pytestmark = pytest.mark.usefixtures("trial_runs")

BATCH, STEPS, WIDTH = 4, 8, 16


def cut(model: nn.Module, *args: torch.Tensor, device: Device = Device.CUDA) -> Partition:
    target = Target(device, arch="sm_90") if device is Device.CUDA else Target(device)
    return partition(differentiate(capture_export(model, args, target=target, train=True), target))


def saved(cutting: Partition) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    values: list[Any] = [node.meta["val"] for node in cutting.saved]
    return [(value.dtype, tuple(value.shape)) for value in values]


def written(model: nn.Module, args: tuple[torch.Tensor, ...], out: Path, device: str) -> str:
    """The unit's model.py and backward.py; its trial run compares results and gradients with eager's."""
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model, args, out=out, device=device, arch=arch, train=True)
    return (out / "model.py").read_text() + (out / "backward.py").read_text()


def test_a_recurrence_keeps_five_values_of_a_state_a_step() -> None:
    """Its state, three gates, and of what the product made the third that the derivative reads; none in float32."""
    torch.manual_seed(0)
    model = GRUByHand(n_in=8, width=WIDTH).bfloat16()
    cutting = cut(model, torch.randn(BATCH, STEPS, 8, dtype=torch.bfloat16))
    assert set(saved(cutting)) == {(torch.bfloat16, (BATCH, WIDTH))}
    assert cutting.saved_bytes <= 5 * STEPS * BATCH * WIDTH * 2


class Gated(nn.Module):
    """One part of a product is read by the derivative alone, or both are."""

    def __init__(self, reads_both: bool) -> None:
        super().__init__()
        self.layer, self.reads_both = nn.Linear(8, 32), reads_both

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.layer(x).chunk(2, -1)
        return gate.sin() * value.exp() if self.reads_both else gate.sin() + value


@pytest.mark.parametrize("reads_both", [False, True])
def test_a_part_is_kept_where_the_rest_is_not_read(reads_both: bool) -> None:
    cutting = cut(Gated(reads_both), torch.randn(6, 8), device=Device.CPU)
    assert [shape for _, shape in saved(cutting)] == [(6, 32 if reads_both else 16)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("reads_both", [False, True])
def test_parts_give_eagers_gradients(reads_both: bool, device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    written(Gated(reads_both), (torch.randn(6, 8),), tmp_path / "unit", device)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gradients_of_a_weight_add_up_where_the_total_lies(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = written(GRUByHand(n_in=8, width=WIDTH), (torch.randn(BATCH, STEPS, 8),), tmp_path / "unit", device)
    assert text.count("d_kept_weight.addmm_(") + text.count("d_given_weight.addmm_(") == 2 * (STEPS - 1)
    assert "old_new" in text and "add_gradients" not in text


class TwiceReturned(nn.Module):
    """A total that the caller gets, too, and one whose weight is also looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(12, 8), nn.Linear(8, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        for _ in range(3):
            x = torch.tanh(self.layer(x))
        return F.linear(x, self.table.weight)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_tied_table_is_no_product_alone(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = written(TwiceReturned(), (torch.randint(12, (5,)),), tmp_path / "unit", device)
    assert text.count("d_layer_weight.addmm_(") == 2 and "d_table_weight.addmm_" not in text


class Stem(nn.Module):
    """How many networks of images begin."""

    def __init__(self, has_norm: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4) if has_norm else nn.Identity()
        self.pool, self.last = nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(self.pool(F.relu(self.norm(self.conv(images)))))


@pytest.mark.parametrize("has_norm", [True, False])
def test_pooling_keeps_two_bytes_of_a_window(has_norm: bool) -> None:
    kept = saved(cut(Stem(has_norm), torch.randn(2, 3, 12, 12)))
    assert (torch.int16, (2, 4, 6, 6)) in kept
    assert not [dtype for dtype, _ in kept if dtype is torch.int64]
    # Of the images' size there is what the norm normalized; relu's results are made for the pooling alone.
    assert len([shape for _, shape in kept if shape == (2, 4, 12, 12)]) == 1


def test_an_index_of_a_large_image_has_four_bytes() -> None:
    kept = saved(cut(Stem(), torch.randn(1, 3, 182, 182)))
    assert torch.int32 in [dtype for dtype, _ in kept] and torch.int16 not in [dtype for dtype, _ in kept]


class Overlapping(nn.Module):
    """Windows that overlap, with ties at zero, of what else is read, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.conv(images)) - 0.5)
        pooled = F.max_pool2d(x, 3, 1, 1)
        return F.max_pool2d(pooled * x, (2, 3), (1, 2), ceil_mode=True).square()


@pytest.mark.parametrize("model", [Stem(), Stem(has_norm=False), Overlapping()], ids=["norm", "bare", "over"])
def test_pooling_gives_eagers_gradients(model: nn.Module, tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = written(model, (torch.randn(2, 3, 9, 11),), tmp_path / "unit", "cuda")
    assert "max_pool2d_with_indices_backward" in text
