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


def positive_loss(x):
    return torch.nn.functional.gaussian_nll_loss(x, x.flip(0), x.detach().abs() * x.abs(), eps=0.3)


def part_at_a_place(x):
    at = (x.detach()[0, 0] > 0).long()
    part = torch.narrow(x * 2, 1, at - 3, 2)
    copy = x.clone()
    copy.narrow(0, at, 1).mul_(3)  # a view: what is written into it is in the copy
    return part * x[:, :2], copy


def weighted_covariance(x):
    return torch.cov(x, aweights=x.detach()[0].abs()), torch.cov(x, correction=4)


def solved(x):
    return torch.linalg.lstsq(x, x * 2 + 1).solution


def spelled(x):
    targets, lengths = torch.tensor([[1, 2]]), torch.tensor([2])
    scores = x.log_softmax(1).unsqueeze(1)
    whole = torch.full((1,), 3)
    return torch.nn.functional.ctc_loss(scores, targets, whole, lengths)


def leaking(x):
    drawn = torch.rrelu(x, 0.1, 0.3, training=True)
    return drawn * x


WHOLE = [correlation, positive_loss, part_at_a_place, weighted_covariance, solved, spelled, leaking]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("function", WHOLE)
@pytest.mark.filterwarnings("ignore:cov")
def test_what_looks_at_data_is_called_whole(function: Any, train: bool, tmp_path: Path) -> None:
    """With eager's own gradients, and eager's places for other data."""
    torch.manual_seed(0)
    given = torch.randn(3, 4, requires_grad=train)
    longhand.generate(function, (given,), out=tmp_path / "unit", train=train)
    unit = longhand.load(tmp_path / "unit")
    for x in (given.detach(), -given.detach(), torch.randn(3, 4)):
        seen = []
        for call in (unit, function):
            own = x.clone().requires_grad_(train)
            torch.manual_seed(1)
            made = call(own)
            results = made if isinstance(made, tuple) else (made,)
            if train:
                sum((one * one).sum() for one in results).backward()
            seen.append([*results, own.grad])
        torch.testing.assert_close(*seen, equal_nan=True)


def test_a_part_at_a_place_of_the_argument_is_no_result(tmp_path: Path) -> None:
    """Eager's shares the argument's memory, at a place that only the call knows."""
    with pytest.raises(CaptureError, match="returns a view of `x`"):
        longhand.generate(
            lambda x, at: torch.narrow(x, 0, at, 2),
            (torch.randn(3, 4), torch.tensor(1)),
            out=tmp_path / "unit",
        )


def test_a_negative_variance_shows(tmp_path: Path) -> None:
    def loss(x):
        return torch.nn.functional.gaussian_nll_loss(x, x, x, reduction="none")

    longhand.generate(loss, (torch.rand(4),), out=tmp_path / "unit")
    assert longhand.load(tmp_path / "unit")(torch.tensor([-1.0, 1.0, 1.0, 1.0])).isnan().tolist() == [
        True,
        False,
        False,
        False,
    ]
