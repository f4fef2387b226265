"""What ``del`` names: the variables that hold the memory that goes, not those that held it once."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch


def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    norm = torch.mm(x, w)
    total = torch.exp(norm)  # takes over norm's memory; the word is free
    norm = torch.mm(total, w)
    y = torch.mm(norm, w)
    for _ in range(3):
        y = torch.mm(y, w)
    other = torch.mm(total, y)
    for _ in range(3):
        other = torch.mm(other, w)
    return other


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_memory_that_was_taken_over_goes_by_its_new_name(emit: Any, device: str) -> None:
    text = str(emit(function, (torch.empty(4096, 4096), torch.empty(4096, 4096)), device=device)["model.py"])
    dropped = [name for line in re.findall(r"^ *del (.*)$", text, re.MULTILINE) for name in line.split(", ")]
    assert dropped.count("norm") == 1 and dropped.count("total") == 1, text
