"""Tensors that kernels cannot take as they lie in memory: the result is eager's, through a kernel or without one."""

from __future__ import annotations

import pytest
import torch

import longhand

COMPLEX = torch.randn(5, 7, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def assert_as_in_eager(function, *args: torch.Tensor) -> None:
    with torch.no_grad():
        ours, eager = longhand.compile(function)(*args), function(*args)
    assert ours.dtype is eager.dtype and ours.layout is eager.layout
    if eager.layout is torch.strided:
        assert ours.stride() == eager.stride()
    torch.testing.assert_close(ours.to_dense(), eager.to_dense())


@pytest.mark.parametrize(
    "x",
    [
        COMPLEX,
        COMPLEX.conj(),
        COMPLEX.conj().imag,
        torch.eye(5).to_sparse(),
        torch.eye(5).to_sparse_csr(),
        torch.tensor(3.0),
        torch.randn(2, 1, 2, 3, 1, 2, 2, 2, 3),
        torch.arange(12.0).as_strided((4, 3), (1, 1)),
        torch.randn(1, 5).expand(4, 5),
        torch.randn(0, 3),
    ],
    ids=[
        "complex",
        "conjugate",
        "negated",
        "sparse",
        "sparse_csr",
        "scalar",
        "rank_9",
        "overlapping",
        "expanded",
        "empty",
    ],
)
def test_elementwise(x):
    assert_as_in_eager(doubled, x)


def test_memory_that_holds_the_opposite_signs_after_memory_that_does_not():
    negated = COMPLEX.conj().imag
    assert negated.is_neg()
    for compiled in (longhand.compile(doubled), torch.compile(doubled, backend="longhand")):
        with torch.no_grad():
            torch.testing.assert_close(compiled(torch.ones(5, 7)), torch.full((5, 7), 2.0))
            torch.testing.assert_close(compiled(negated), negated * 2)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64])
def test_what_loops_do_not_compute_in_is_laid_out_as_in_eager(dtype):
    x = torch.randn(4, 5).to(dtype)
    with torch.no_grad():
        for function in (lambda x: x.t().contiguous(), lambda x: x.t().clone()):
            ours, eager = longhand.compile(function)(x), function(x)
            assert ours.stride() == eager.stride()
            assert torch.equal(ours.to(torch.complex64), eager.to(torch.complex64))
