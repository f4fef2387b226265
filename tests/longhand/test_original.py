"""Copies of an example's tensors lie in memory as the originals do: units are made for those strides."""

from __future__ import annotations

import pytest
import torch

from longhand.factory import Call
from longhand.verify.original import copied, told_apart

LAYOUTS = {
    "dense": lambda: torch.randn(4, 6),
    "transposed": lambda: torch.randn(4, 6).t(),
    "every other column": lambda: torch.randn(4, 12)[:, 2::2],
    "expanded": lambda: torch.randn(4, 1).expand(4, 6),
    "windows that overlap": lambda: torch.randn(9).unfold(0, 4, 1),
    "conjugated": lambda: torch.randn(4, 6, dtype=torch.complex64).conj(),
    "of no element": lambda: torch.randn(0, 12)[:, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_has_the_strides_and_values_and_no_memory_of_the_original(layout: str) -> None:
    tensor = LAYOUTS[layout]()
    (copy,), _ = (lambda call: (call.args, call.kwargs))(copied(Call(torch.sin, (tensor,), {})))
    assert copy.stride() == tensor.stride() and torch.equal(copy, tensor)
    assert copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr() or not tensor.numel()


def test_a_leaf_that_requires_grad_still_does() -> None:
    tensor = torch.randn(4, 12)[:, ::2].requires_grad_()
    (copy,) = copied(Call(torch.sin, (tensor,), {})).args
    assert copy.requires_grad and copy.stride() == (12, 2)


@pytest.mark.parametrize("layout", ["dense", "every other column", "expanded", "transposed"])
def test_a_tensor_given_twice_becomes_two_in_one_layout(layout: str) -> None:
    tensor = LAYOUTS[layout]()
    first, second = told_apart(Call(torch.add, (tensor, tensor), {})).args
    assert first is tensor and not torch.equal(first, second)
    assert second.stride() == first.stride() or layout == "expanded"
