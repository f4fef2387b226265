"""A new tensor of one number is one statement: torch.zeros, or the pool's memory with zero_() behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit


class Picked(nn.Module):
    """The derivative of what it gathers is added to zeros; what it starts from are ones."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(5, 7)

    def forward(self, x: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
        scores = torch.gather(self.up(x), 1, picked)
        return scores * torch.cumsum(torch.ones(3, 4), 1)


def _unit(out: Path, device: str) -> tuple[nn.Module, tuple[torch.Tensor, ...], dict[str, str]]:
    torch.manual_seed(0)
    model, arguments = Picked(), (torch.randn(3, 5), torch.randint(7, (3, 4)))
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model, arguments, out=out, device=device, arch=arch, train=True)
    return model, arguments, {name: (out / f"{name}.py").read_text() for name in ("model", "backward")}


def test_zeros_on_the_gpu(tmp_path: Path) -> None:
    _, _, texts = _unit(tmp_path / "unit", "cuda")
    assert re.search(r" = torch\.zeros\(", texts["backward"])
    assert "zero_()" not in texts["backward"]
    assert "fill_(" not in texts["model"]


def test_zeros_in_the_memory_of_the_pool(tmp_path: Path) -> None:
    model, arguments, texts = _unit(tmp_path / "unit", "cpu")
    assert re.search(r"^ +\w+ = empty\(.*\)\.zero_\(\)$", texts["backward"], re.MULTILINE)
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    made, wanted = unit(*arguments), model(*arguments)
    torch.testing.assert_close(made, wanted)
    made.square().sum().backward()
    wanted.square().sum().backward()
    for one, other in zip(unit.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


class Sorted(nn.Module):
    """Where a library says which rows: the layout of what it returns is known only at the call."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        _, order = torch.sort(keys)
        return self.up(x)[order].cumsum(0)


def test_no_counter_is_in_the_words_of_what_is_laid_out_anew(tmp_path: Path) -> None:
    arguments = torch.randn(6, 8), torch.randn(6)
    out = tmp_path / "unit"
    longhand.generate(Sorted(), arguments, out=out, device="cuda", arch="sm_90", train=True)
    text = (out / "backward.py").read_text()
    assert not re.search(r"_\d+_(contiguous|places)", text)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_how_many_are_taken_has_its_word(device: str, tmp_path: Path) -> None:
    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.n_chosen = nn.Linear(8, 6), 3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            best, _ = torch.topk(self.up(x), self.n_chosen, dim=-1)
            return best.softmax(-1)

    out = tmp_path / "unit"
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(Router(), (torch.randn(5, 8),), out=out, device=device, arch=arch)
    assert re.search(r"torch\.topk\(\w+, N_CHOSEN\)", (out / "model.py").read_text())
