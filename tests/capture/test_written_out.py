"""Functions that ask the data on their way are in a unit as what they are made of, right in values and gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import longhand
from longhand.errors import CaptureError


def pairs(x):
    return torch.combinations(x.flatten())


def triples_with_replacement(x):
    return torch.combinations(x[0] * 2, 3, with_replacement=True)


def more_than_there_are(x):
    return torch.combinations(x[0, :2], 3)


def covariance(x):
    return torch.cov(x), x.cov(correction=0), torch.cov(x[0])


def correlation(x):
    return torch.corrcoef(x), x[0].corrcoef()


def complex_correlation(x):
    return torch.view_as_real(torch.corrcoef(torch.complex(x, x.flip(0))))


IN_TRAINING = [pairs, triples_with_replacement, more_than_there_are, covariance]
CASES = [(one, True) for one in IN_TRAINING]
CASES += [(one, False) for one in (*IN_TRAINING, correlation, complex_correlation)]


@pytest.mark.parametrize("function, train", CASES)
def test_a_unit_computes_them(function: Any, train: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    given = torch.randn(3, 4, requires_grad=train)
    longhand.generate(function, (given,), out=tmp_path / "unit", train=train)
    unit = longhand.load(tmp_path / "unit")
    for x in (given.detach(), torch.randn(3, 4)):
        ours, theirs = (x.clone().requires_grad_(train) for _ in range(2))
        found, expected = unit(ours), function(theirs)
        torch.testing.assert_close(found, expected)
        if train:
            for made in (found, expected):
                results = made if isinstance(made, tuple) else (made,)
                sum((one * one).sum() for one in results).backward()
            torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-4)


def test_correlations_are_refused_in_training(tmp_path: Path) -> None:
    """Clipping stops gradients where a correlation of 1 is rounded upwards: eager's are as its rounding has it."""
    given = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(CaptureError, match="depends on the data"):
        longhand.generate(correlation, (given,), out=tmp_path / "unit", train=True)
