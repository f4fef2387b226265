"""A function of the user's may be called as one of check.py's own is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import longhand
from longhand.emit.module import check_py
from longhand.verify.verification import verify

ROOT = Path(__file__).parents[2]


def compared(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2


def results(x: torch.Tensor) -> torch.Tensor:
    return torch.cos(x) * 3


def run(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 4


@pytest.mark.parametrize("function", [compared, results, run])
def test_the_users_function_is_told_apart(function, tmp_path: Path) -> None:
    longhand.generate(function, (torch.randn(4, 8),), out=tmp_path / "unit", device="cpu")
    text = (tmp_path / "unit" / "check.py").read_text()
    assert f"from .model import {function.__name__} as generated_{function.__name__}" in text
    found = verify(tmp_path / "unit", f"{__name__}:{function.__name__}_factory")
    assert all(check.is_right for check in found.kernels)


def compared_factory() -> tuple[object, tuple[torch.Tensor]]:
    return compared, (torch.randn(4, 8),)


def results_factory() -> tuple[object, tuple[torch.Tensor]]:
    return results, (torch.randn(4, 8),)


def run_factory() -> tuple[object, tuple[torch.Tensor]]:
    return run, (torch.randn(4, 8),)


def test_all_that_check_py_defines_is_known() -> None:
    text = (ROOT / "templates" / "unit" / "check.py.jinja").read_text()
    defined = re.findall(r"^def (\w+)\(", text, re.MULTILINE)
    assert len(defined) > 15 and set(defined) <= check_py._DEFINED
