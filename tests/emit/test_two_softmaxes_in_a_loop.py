"""A loop over long rows that finds two softmaxes at once: each has a maximum of its own, by a name of its own."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F

import longhand


def against_its_own(x: torch.Tensor) -> torch.Tensor:
    """Both are of rows that are too long for the registers of a program."""
    return F.cross_entropy(x * 0.1 + 300, x.softmax(1), reduction="none")


def test_each_has_a_name(tmp_path: Path) -> None:
    longhand.generate(
        against_its_own, (torch.randn(1, 18000),), out=tmp_path / "unit", device="cuda", arch="sm_90"
    )
    text = "".join(path.read_text() for path in (tmp_path / "unit/kernels").glob("*.py"))
    maxima = {line.split("=")[0].strip() for line in text.splitlines() if line.strip().startswith("new_")}
    assert len(maxima) == 2, maxima
