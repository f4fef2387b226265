"""New tensors lie on a device that is asked of a tensor which is still there, also where that is a record's field."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.readability.units import text_of
from longhand.emit.module.later_steps import loses_device
from longhand.schedule.plan import Allocate, Release


class Residual(nn.Module):
    """As in HiFi-GAN: what the backward pass reads of it is computed again, before its derivative."""

    def __init__(self, channels: int, kernel: int, n_pairs: int) -> None:
        super().__init__()
        half = kernel // 2
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=half * (2 * i + 1), dilation=2 * i + 1)
            for i in range(n_pairs)
        )
        self.convs2 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=half) for _ in range(n_pairs)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, second in zip(self.convs1, self.convs2, strict=True):
            residual = x
            x = first(F.leaky_relu(x, 0.1))
            x = second(F.leaky_relu(x, 0.1)) + residual
        return x


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pre, self.post = nn.Conv1d(8, 64, 7, padding=3), nn.Conv1d(32, 1, 7, padding=3, bias=False)
        self.ups = nn.ModuleList([nn.ConvTranspose1d(64, 32, 4, 2, padding=1)])
        self.blocks = nn.ModuleList([Residual(32, 3, 4), Residual(32, 7, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.ups[0](F.leaky_relu(self.pre(x), 0.1))
        x = (self.blocks[0](x) + self.blocks[1](x)) / 2
        return torch.tanh(self.post(F.leaky_relu(x)))


@pytest.mark.parametrize(
    ("dropped", "is_lost"),
    [
        (["saved.layer2.x"], True),
        (["saved.layer2"], True),
        (["saved"], True),
        (["saved.layer2.x_out", "saved.layer", None], False),
        ([], False),
    ],
)
def test_what_is_dropped_with_a_record_tells_no_device(dropped: list[str | None], is_lost: bool) -> None:
    made = [Allocate("hidden")]
    assert loses_device("saved.layer2.x.device", dropped, made) is is_lost
    assert not loses_device("saved.layer2.x.device", dropped, [Release(("x",))])


def test_the_device_is_kept_before_the_field_that_tells_it_is_dropped() -> None:
    torch.manual_seed(0)
    example = (Generator().train(), (torch.randn(2, 8, 200),), {})
    backward = text_of(example, "cuda", train=True)["backward.py"]  # and its Python is proven
    functions = [one for one in backward.split("\ndef ") if "device = saved." in one]
    assert functions, backward  # some function is given a record alone, and drops what it reads first
    for function in functions:
        kept = function.partition("device = saved.")[2]
        field = kept.partition(".device")[0]
        assert f"del saved.{field}" in kept and "device=device" in kept
        assert f"device=saved.{field}.device" not in kept
