"""as_strided of an argument that begins inside its memory: eager counts from where the memory begins, or from there."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

import longhand
from longhand.compiled.backend import longhand_backend
from longhand.errors import CaptureError


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


def writes_from_a_place_in_memory(x):
    torch.as_strided(x, (2, 2), (2, 1), 6).zero_()
    return x + 1


def reads_from_there_after_a_write(x):
    x.add_(1)
    return torch.as_strided(x, (2, 2), (1, 2), 7) * 2


@pytest.mark.parametrize("function", [writes_from_a_place_in_memory, reads_from_there_after_a_write])
def test_a_later_argument_may_begin_elsewhere_than_the_written_one(function, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="storage_offset"):
        longhand.generate(function, (torch.arange(20.0)[5:15],), out=tmp_path / "unit")
    torch.compiler.reset()
    reports = []
    backend = functools.partial(longhand_backend, report=reports.append)
    compiled = torch.compile(function, backend=backend)
    for first in (5, 6):
        found, expected = torch.arange(20.0), torch.arange(20.0)
        assert torch.equal(compiled(found[first : first + 10]), function(expected[first : first + 10]))
        assert torch.equal(found, expected)
    assert "storage_offset" in reports[0].reason
