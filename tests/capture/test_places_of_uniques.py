"""torch before 2.12 gives the places and counts of unique elements, while they are fake, the type of the elements."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensor

import longhand

OPS = [
    torch.ops.aten._unique2.default,
    torch.ops.aten.unique_dim.default,
    torch.ops.aten.unique_consecutive.default,
]


def as_before(implementation: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        given = next(one for one in (*args, *kwargs.values()) if isinstance(one, FakeTensor))
        values, *others = implementation(*args, **kwargs)
        return values, *(one.to(given.dtype) for one in others)

    return call


def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows, places, counts = torch.unique(x * 2, sorted=False, return_inverse=True, return_counts=True, dim=0)
    runs, places_of_runs = torch.unique_consecutive(x, return_inverse=True)
    return rows * 2, places + 1, counts, runs, places_of_runs


def test_they_are_whole_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for op in OPS:
        known = fake_impls.op_implementations_dict[op]
        monkeypatch.setitem(fake_impls.op_implementations_dict, op, as_before(known))
    longhand.generate(program, (torch.randn(5, 3),), out=tmp_path / "unit")
    x = torch.tensor([[1.0, 1, 2], [1, 1, 2], [3, 3, 3], [1, 1, 2], [0, 0, 0]])
    for found, expected in zip(longhand.load(tmp_path / "unit")(x), program(x), strict=True):
        assert found.dtype is expected.dtype and torch.equal(found, expected)
    calls = (tmp_path / "unit" / "model.py").read_text()
    assert calls.count("torch.clone(") == 0  # nor is anything cast that is a whole number already
    assert ".to.dtype(" not in calls
