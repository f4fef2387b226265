"""What modules count with is counted in one call, and what else looks at a counter keeps it apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.unit.templates import write_runtime
from tests.same_gradients import assert_gradients_as_exact

IMAGES = (torch.randn(2, 4, 4, 4),)


class Norms(nn.Module):
    """Three norms, of which the last one's counter is used otherwise."""

    def __init__(self, scale: bool = False) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(4)
        self.second = nn.BatchNorm2d(4)
        self.third = nn.BatchNorm2d(4)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(x))
        return x * self.third.num_batches_tracked if self.scale else self.third(x)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_all_counters_of_a_module_are_raised_in_one_call(emit: Any, device: str) -> None:
    files = emit(Norms().train(), IMAGES, device=device)
    assert 'torch._foreach_add_(buffers_named(self, "num_batches_tracked"), 1)' in str(files["model.py"])
    assert "kernels/increment.py" not in files


def test_a_counter_that_is_only_looked_at_is_not_raised(emit: Any) -> None:
    model = " ".join(str(emit(Norms(scale=True).train(), IMAGES)["model.py"]).split())
    assert "_foreach_add_([self.first.num_batches_tracked, self.second.num_batches_tracked], 1)" in model


class CalledTwice(Norms):
    """Its first norm runs again at the end."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(super().forward(x))


def test_a_norm_that_is_called_twice_counts_both_calls(emit: Any) -> None:
    model = " ".join(str(emit(CalledTwice().train(), IMAGES)["model.py"]).split())
    assert "_foreach_add_([self.second.num_batches_tracked, self.third.num_batches_tracked], 1)" in model
    assert "kernels.add(self.first.num_batches_tracked)" in model


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.narrow_norm = nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4)
        self.widen, self.widen_norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.widen_norm(self.widen(torch.relu(self.narrow_norm(self.narrow(x))))))


class Crossed(nn.Module):
    """Half of the channels pass by the blocks, of which the first reads its half in place, as in a CSPNet.

    What the blocks have in common is that they count; and the statistics of the first are given to the others, which
    save them for their derivatives.
    """

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.norm = nn.Conv2d(4, 8, 1), nn.BatchNorm2d(8)
        self.blocks, self.head = nn.Sequential(*(Block() for _ in range(4))), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        aside, x = torch.relu(self.norm(self.expand(x))).split(4, dim=1)
        return self.head(torch.cat([aside, self.blocks(x)], 1))


def test_blocks_that_only_count_alike_are_no_loop(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Crossed().train()
    longhand.generate(model, IMAGES, out=tmp_path / "unit", train=True)
    assert "num_batches_tracked" in (tmp_path / "unit" / "model.py").read_text()
    assert_gradients_as_exact(model, tmp_path / "unit", *IMAGES)


def test_counters_are_found_before_and_after_the_weights_were_looked_at() -> None:
    runtime: dict[str, Any] = {"__name__": __name__}
    exec(write_runtime(["Weights", "buffer", "buffers_named", "check_weights"]), runtime)
    norms = [runtime["Weights"](weight=(4,), steps=runtime["buffer"]((), torch.int64)) for _ in range(2)]
    module = nn.Sequential(nn.Sequential(norms[0]), norms[1])
    for _ in range(2):
        torch._foreach_add_(runtime["buffers_named"](module, "steps"), 1)
        runtime["check_weights"](module, torch.device("cpu"))
    assert [int(norm.steps) for norm in norms] == [2, 2]
