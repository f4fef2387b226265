"""When a kernel counts as faster than another, and what is said where it does not."""

import pytest

from longhand.tune.faster import SpeedComparison


@pytest.mark.parametrize(
    ("gain", "noise", "told"),
    [
        (-0.1, 0.01, "no faster: 10.0% slower, with a noise of 1.0%"),
        (0.10, 0.20, "10.0% faster, with a noise of 20.0%: not to be told apart"),
        (0.01, 0.001, "less than 2% is not written"),
        (0.997, 0.05, "99.7% faster in the median, but not in four of five turns"),
    ],
)
def test_the_reason_for_keeping_fits_its_numbers(gain, noise, told):
    compared = SpeedComparison(gain, noise, is_steady=False)
    assert told in compared.why_not() and not compared.is_faster


def test_faster_is_by_more_than_noise_and_in_most_turns():
    old = [1.0, 1.01, 0.99, 1.0, 1.0]
    assert SpeedComparison.of([0.5] * 5, old, old).is_faster
    assert not SpeedComparison.of([0.99] * 5, old, old).is_faster, "less than 2%"
    assert not SpeedComparison.of([0.5] * 5, old, [2.0] * 5).is_faster, "as far from itself as the new one is"
    assert not SpeedComparison.of([0.5, 0.5, 0.5, 2.0, 2.0], old, old).is_faster, "in three of five turns"
