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


def chosen_by_what_is_read(wide: torch.Tensor, narrow: torch.Tensor, is_kept: torch.Tensor) -> torch.Tensor:
    """Three parts, of which the last chooses by booleans that are read there alone (Mamba's gradient of softplus)."""
    both = torch.cat([wide * 2, wide - 1, torch.where(is_kept, narrow, narrow * 0.3)], dim=-1)
    one, other = both.chunk(2, dim=2)
    return torch.nn.functional.rms_norm(one - 0.3 * other, (one.shape[-1],))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", [differential, apart])
def test_the_reference_is_right(function, device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    args = (torch.randn(2, 5, 4, 16), torch.randn(2, 5, 4, 16))
    more = {} if device == "cpu" else {"device": "cuda", "arch": "sm_90", "run": False}
    longhand.generate(function, args, out=tmp_path / "unit", **more)
    holds(tmp_path)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_reference_of_what_is_chosen_is_right(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    narrow = torch.randn(2, 5, 4, 3)
    args = (torch.randn(2, 5, 4, 16), narrow, narrow > 0)
    more = {} if device == "cpu" else {"device": "cuda", "arch": "sm_90", "run": False}
    longhand.generate(chosen_by_what_is_read, args, out=tmp_path / "unit", **more)
    holds(tmp_path)


def holds(tmp_path: Path) -> None:
    """Every kernel computes what its reference does."""
    checks = check_kernels(tmp_path / "unit").kernels
    assert checks and all(one.is_right for one in checks), [one.mismatch for one in checks]
