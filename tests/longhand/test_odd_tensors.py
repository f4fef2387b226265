"""Tensors that kernels cannot take as they lie in memory: the result is eager's, through a kernel or without one."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import longhand
from longhand.compiled.backend import longhand_backend
from longhand.errors import CaptureError

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
    for compiled in (longhand.compile(doubled), torch.compile(doubled, backend=longhand_backend)):
        with torch.no_grad():
            torch.testing.assert_close(compiled(torch.ones(5, 7)), torch.full((5, 7), 2.0))
            torch.testing.assert_close(compiled(negated), negated * 2)


class Doubling(torch.Tensor):
    """Its sum is twice the sum."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        return result * 2 if function is torch.Tensor.sum else result


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch._neg_view(x),
        lambda x: (x[0, 0] + 1j).conj().imag.reshape(1, 1),
        lambda x: TwoTensor(x, x * 3),
        lambda x: x.as_subclass(Doubling),
        lambda x: torch._efficientzerotensor(x.shape),
    ],
    ids=["negated", "one_negated", "wrapper", "subclass", "zero"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_what_only_eager_can_take_through_dynamo(make, is_first):
    def function(x, y):
        y.mul_(2)
        return x * 2 + y.sum(0)

    torch.manual_seed(0)
    x = torch.randn(5, 7)
    given = make(x)
    compiled = torch.compile(function, backend=longhand_backend)
    with torch.no_grad():
        if not is_first:
            compiled(torch.ones(given.shape), torch.ones(3, 7))
        ours_y, eager_y = torch.ones(3, 7), torch.ones(3, 7)
        ours, eager = compiled(given, ours_y), function(given, eager_y)
        assert type(ours) is type(eager) and torch.equal(ours_y, eager_y)
        torch.testing.assert_close(as_plain(ours), as_plain(eager))


def as_plain(value: torch.Tensor) -> torch.Tensor:
    value = value.a if isinstance(value, TwoTensor) else value
    return value.as_subclass(torch.Tensor)


def test_generate_refuses_memory_that_holds_the_opposite_signs(tmp_path):
    with pytest.raises(CaptureError, match=r"opposite sign.*resolve_neg"):
        longhand.generate(doubled, (COMPLEX.conj().imag,), out=tmp_path / "unit")
    assert not (tmp_path / "unit").exists()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64])
def test_what_loops_do_not_compute_in_is_laid_out_as_in_eager(dtype):
    x = torch.randn(4, 5).to(dtype)
    with torch.no_grad():
        for function in (lambda x: x.t().contiguous(), lambda x: x.t().clone()):
            ours, eager = longhand.compile(function)(x), function(x)
            assert ours.stride() == eager.stride()
            assert torch.equal(ours.to(torch.complex64), eager.to(torch.complex64))
