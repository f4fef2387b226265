"""Rows that are looked up: where a reduction says, and where a tensor is padded twice. Found in sound codecs."""

import warnings

import pytest
import torch
from torch.nn import functional as F

import longhand


def nearest_code(x, codes):
    """Of as many codes as they have numbers: the loops over both are alike."""
    distance = x.pow(2).sum(1, keepdim=True) - 2 * x @ codes.t() + codes.pow(2).sum(1)
    found = (-distance).max(dim=-1).indices
    return F.embedding(found.view(2, -1), codes), found


def mirrored(x, y):
    """Zeros, which there are fewer of than what is mirrored reaches."""
    h = F.pad(F.elu((x + y).permute(1, 2, 0)), (0, 1))
    return F.pad(h, (3, 0), "reflect")


@pytest.mark.parametrize(
    ("function", "sizes"), [(nearest_code, [(6, 16), (16, 16)]), (mirrored, [(3, 2, 64), (3, 2, 64)])]
)
def test_is_right_and_runs_in_kernels(function, sizes):
    torch.manual_seed(0)
    args = [torch.randn(size) for size in sizes]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = longhand.compile(function)(*args)
    torch.testing.assert_close(found, function(*args))
    assert not [str(one.message) for one in told if "longhand" in str(one.message)]
