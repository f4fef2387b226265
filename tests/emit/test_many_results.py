"""A kernel of many results says how each is made, and how it goes along what it adds up, if that has a word."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of
from tests.schedule.test_parts import written


class Normed(nn.Module):
    """A convolution's bias, a batch norm with all of its statistics, and what comes after it: one kernel on a GPU."""

    def __init__(self, n_dims: int, after: nn.Module) -> None:
        super().__init__()
        conv = nn.Conv2d if n_dims == 2 else nn.Conv3d
        self.conv = conv(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8) if n_dims == 2 else nn.BatchNorm3d(8)
        self.after, self.last = after, conv(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.after(self.norm(self.conv(x))))


def _training(n_dims: int, n_images: int, after: nn.Module) -> Mapping[str, str]:
    given = torch.randn(n_images, 3, *[4] * n_dims)
    return text_of((Normed(n_dims, after).train(), (given,), {}), "cuda", train=True)


def _head(files: Mapping[str, str]) -> str:
    """What the kernel that normalizes says of itself."""
    name = re.compile(r"kernels/(add_)?batch_norm(?!_stat|alized)\w*")
    (text,) = (text for path, text in files.items() if name.match(path))
    return text.split('"""')[1]


@pytest.mark.parametrize("n_dims", [2, 3])
@pytest.mark.parametrize("after", [nn.Identity(), nn.ReLU()], ids=["alone", "relu"])
def test_each_of_six_results_has_a_formula(n_dims: int, after: nn.Module) -> None:
    """It said "6 results from conv_out, row by row", and that there were several batch norms."""
    files = _training(n_dims, 1, after)
    (text,) = (
        text
        for path, text in files.items()
        if re.match(r"kernels/(add_)?batch_norm(?!_stat|alized)\w*", path)
    )
    head = text.split('"""')[1]
    assert "results" not in head and "batch_norms" not in head
    for word in ("mean", "rstd", "normalized", "running_mean", "running_var"):
        assert re.search(rf"^    (\w+_)?{word} = ", head, re.M), head
    assert len(head.splitlines()) <= 15


def test_results_without_room_for_formulas_are_named() -> None:
    """It said "6 results"."""
    head = _head(_training(2, 1, nn.PReLU()))
    first = " ".join(head.split("\n\n")[0].split())
    assert re.match(r"batch_norm: \w+, \w+_mean, \w+_rstd, \w+, running_mean and running_var from", first), (
        first
    )
    assert len(head.splitlines()) <= 15


def test_what_makes_statistics_alone_is_no_batch_norm() -> None:
    names = {path for path in _training(2, 4, nn.GELU()) if path.startswith("kernels/")}
    assert not any(re.search(r"batch_norms", name) for name in names), names


def test_a_sum_over_paths_goes_along_no_columns() -> None:
    """For each image, channel and pixel: it said "column by column"."""
    assert "column by column" not in written("paths", "cpu")
