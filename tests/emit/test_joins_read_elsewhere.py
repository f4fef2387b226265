"""A tensor whose halves are joined here and read elsewhere under another mask: its reference sees one memory of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import longhand
from longhand.verify.checking import check_kernels


def differential(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Two joins of the same two tensors, at other rows (differential attention, arXiv:2410.05258)."""
    both = torch.cat([first, second], dim=-1)
    one, other = both.chunk(2, dim=2)
    return torch.nn.functional.rms_norm(one - 0.3 * other, (one.shape[-1],))


def apart(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The same of one join alone."""
    both = torch.cat([first, second], dim=-1)
    return torch.nn.functional.rms_norm(both, (both.shape[-1],))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", [differential, apart])
def test_the_reference_is_right(function, device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    args = (torch.randn(2, 5, 4, 16), torch.randn(2, 5, 4, 16))
    more = {} if device == "cpu" else {"device": "cuda", "arch": "sm_90", "run": False}
    longhand.generate(function, args, out=tmp_path / "unit", **more)
    checks = check_kernels(tmp_path / "unit").kernels
    assert checks and all(one.is_right for one in checks), [one.mismatch for one in checks]
