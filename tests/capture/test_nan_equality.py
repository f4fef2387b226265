"""What holds a NaN is equal to its like on every Python."""

import math

import torch

from longhand.capture.graph import Literal
from longhand.capture.known.facts import SameNumber
from longhand.lower.body import Constant, Index, Load, Scalar


def test_a_number_that_is_nan_is_equal_to_itself() -> None:
    for held in (SameNumber, Literal):
        assert held(math.nan) == held(math.nan)
        assert held(math.nan) != held(0.0)
    for kind in (Constant, Scalar):
        assert kind(math.nan, torch.float32) == kind(math.nan, torch.float32)
        assert kind(math.nan, torch.float32) != kind(math.nan, torch.float64)
        assert len({kind(math.nan, torch.float32), kind(math.nan, torch.float32)}) == 1


def test_a_load_that_reads_nan_where_it_is_masked_is_equal_to_itself() -> None:
    def load(other: float) -> Load:
        return Load("table", Index(0, (("d0", 1),)), torch.float32, mask=2, other=other)

    assert load(math.nan) == load(math.nan)
    assert hash(load(math.nan)) == hash(load(math.nan))
    assert load(math.nan) != load(0.0)
    assert load(math.nan) != Constant(math.nan, torch.float32)
