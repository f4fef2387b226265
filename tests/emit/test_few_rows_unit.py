"""Sums of a few rows: each thread has all of them, in a loop that the compiler unrolls."""

from __future__ import annotations

from pathlib import Path

import torch

import longhand


def repeats_added_up(d_heads: torch.Tensor) -> torch.Tensor:
    """The gradient of keys that four heads share."""
    return d_heads.float().sum(2).to(d_heads.dtype)


def generated(tmp_path: Path, function: object, *args: torch.Tensor) -> str:
    """The text of the only kernel."""
    unit = tmp_path / "unit"
    longhand.generate(function, args, out=unit, device="cuda", arch="sm_90", run=False)
    (kernel,) = [path for path in (unit / "kernels").glob("*.py") if path.name != "__init__.py"]
    return kernel.read_text()


def test_repeats_of_a_key_are_added_up_in_one_thread(tmp_path: Path) -> None:
    text = generated(tmp_path, repeats_added_up, torch.randn(2, 2, 4, 33, 64, dtype=torch.bfloat16))
    assert "in tl.static_range(" in text and "tl.sum(" not in text


def test_many_rows_are_walked_in_tiles(tmp_path: Path) -> None:
    text = generated(tmp_path, repeats_added_up, torch.randn(2, 2, 40, 33, 64, dtype=torch.bfloat16))
    assert "tl.static_range(" not in text and "tl.sum(" in text
