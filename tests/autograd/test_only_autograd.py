"""Ops whose derivative only autograd has when it runs: gradients are eager's, found by its own call in the unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import longhand

PLACES = torch.tensor([1, 5, 5])

CASES: dict[str, tuple[Callable[..., Any], torch.dtype]] = {
    "values of eigenvectors": (lambda x: torch.linalg.eigvals(x).abs(), torch.float64),
    "of a complex symmetric matrix": (lambda x: torch.linalg.eigvalsh(x + x.mH), torch.complex128),
    "keywords by default": (lambda x: torch.linalg.matrix_norm(x, "nuc"), torch.complex128),
    "a result without a derivative": (lambda x: torch.linalg.lu(x)[1:], torch.float64),
    "that result, returned": (lambda x: torch.linalg.lu(x * 2), torch.float64),
    "a decomposition that looks at data": (lambda x: x.put(PLACES, x[0], accumulate=True), torch.float64),
    "taken by places": (lambda x: x.take(PLACES) * 2, torch.float64),
    "pairs that lie apart": (lambda x: torch.view_as_real(x * 2) * (1 + 2j), torch.complex128),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_eager_s(name: str, tmp_path: Path) -> None:
    function, dtype = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(3, 3, dtype=dtype)
    longhand.generate(function, (x.clone().requires_grad_(),), out=tmp_path / "unit", train=True)
    found, wanted = step(longhand.load(tmp_path / "unit"), x), step(function, x)
    assert found["flags"] == wanted["flags"]
    for mine, theirs in zip(found["values"], wanted["values"], strict=True):
        torch.testing.assert_close(mine, theirs)


def step(function: Callable[..., Any], given: torch.Tensor) -> dict[str, Any]:
    x = given.clone().requires_grad_()
    made = function(x)
    results = list(made) if isinstance(made, tuple | list) else [made]
    carrying = [one for one in results if one.requires_grad]
    torch.autograd.backward(carrying, [torch.ones_like(one) for one in carrying])
    return {
        "flags": [one.requires_grad for one in results],
        "values": [*(one.detach() for one in results), x.grad],
    }
