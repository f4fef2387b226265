"""as_strided of an argument that begins inside its memory: eager counts from where the memory begins, or from there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import longhand


def from_its_own_place(x):
    return torch.as_strided(x, (2, 2), (1, 2)), torch.as_strided(x, (2, 2), (1, 2)) * 2


def from_a_place_in_memory(x):
    return torch.as_strided(x, (2, 2), (1, 2), 10), torch.as_strided(x, (2, 2), (1, 2), 9) * 2


def of_a_part(x):
    return torch.as_strided(x[2:], (2, 2), (1, 2)) * 2, torch.as_strided(x[1:], (2, 2), (1, 2), 8)


@pytest.mark.parametrize("function", [from_its_own_place, from_a_place_in_memory, of_a_part])
def test_a_unit_reads_what_eager_reads(function, tmp_path: Path) -> None:
    longhand.generate(function, (torch.arange(20.0)[5:15],), out=tmp_path / "unit")
    unit = longhand.load(tmp_path / "unit")
    for memory, first in ((torch.arange(20.0), 5), (torch.arange(30.0) * 3, 7)):
        x = memory[first : first + 10]
        for found, expected in zip(unit(x), function(x), strict=True):
            assert torch.equal(found, expected)
        shares = [
            call(x)[0].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            for call in (unit, function)
        ]
        assert shares[0] == shares[1]
