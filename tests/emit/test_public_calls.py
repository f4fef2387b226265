"""Calls of PyTorch in model.py are its public ones, as a person writes them, and compute what eager does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import longhand


def with_complex(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    one, other = torch.view_as_complex(x), torch.view_as_complex(y)
    return torch.view_as_real(one * other)


def with_replaced(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    order = torch.argsort(y[:, 0, 0])
    return x.index_put((order,), y)


def with_every_third(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.slice_scatter(x, y[:, :2], dim=1, start=1, end=6, step=3)


def larger(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.interpolate((x + y)[None], scale_factor=2.0, mode="nearest")


def larger_with_corners(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.interpolate((x * y)[None], size=(9, 5), mode="bilinear", align_corners=True)


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (-1, 2), "replicate")  # its derivative writes at places of the second dimension alone


def turned(x: torch.Tensor) -> torch.Tensor:
    return (x * x.imag).t()  # square: x * x.imag.t() would have the same shape


@pytest.mark.parametrize(
    ("function", "dtype"), [(padded, torch.float32), (turned, torch.complex64)], ids=["padded", "turned"]
)
def test_a_trained_call_computes_the_same(function: Any, dtype: torch.dtype) -> None:
    x = torch.randn(4, 4, dtype=dtype, requires_grad=True)
    found = longhand.compile(function)(x)
    expected = function(x)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(result.abs().sum(), x)[0] for result in (found, expected)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (with_complex, " * "),
        (with_replaced, ".index_put(("),
        (with_every_third, "torch.slice_scatter("),
        (larger, 'scale_factor=2.0, mode="nearest")'),
        (larger_with_corners, 'size=(9, 5), mode="bilinear", align_corners=True)'),
    ],
)
def test_a_call_is_public_and_computes_the_same(emit: Any, function: Any, wanted: str) -> None:
    torch.manual_seed(0)
    args = (torch.randn(4, 8, 2), torch.randn(4, 8, 2))
    text = str(emit(function, args)["model.py"])
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert wanted in code, code
    assert "torch.ops.aten" not in code, code
    torch.testing.assert_close(longhand.compile(function)(*args), function(*args))
