"""Results that look at an argument's memory in a way that no index map tells: ATen's own views of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree

import longhand
from longhand.errors import CaptureError


def as_complex(x):
    return torch.view_as_complex(x)


def conjugate(x):
    return torch.view_as_complex(x).conj(), x * 2


def of_another_type(x):
    return x.view(torch.int32)


def one_of_several(x):
    return torch.view_as_complex(x).tensor_split(2)[1]


def written_before(x):
    x.add_(1)
    return torch.view_as_complex(x)


def written_afterwards(x):
    seen = torch.view_as_complex(x)
    x.mul_(2)
    return seen


def twice(x):
    return torch.view_as_complex(x), torch.view_as_complex(x)


def behind_index_maps(x):
    return torch.view_as_complex(x[1:])[:, 1:].t().conj()


def of_a_result(x):
    made = x * 2
    return made, torch.view_as_complex(made)


FUNCTIONS = [
    as_complex,
    conjugate,
    of_another_type,
    one_of_several,
    written_before,
    written_afterwards,
    twice,
    behind_index_maps,
    of_a_result,
]


def _described(results: Any, given: torch.Tensor) -> list[Any]:
    """All but the values: sizes, strides, where it begins, and whose memory it is."""
    found = pytree.tree_leaves(results)
    owners = [given, *found]
    return [
        (
            one.dtype,
            one.shape,
            one.stride(),
            one.storage_offset(),
            one.is_conj(),
            [one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() for other in owners],
        )
        for one in found
    ]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_a_unit_returns_them_with_the_memory_that_eager_has(function: Any, tmp_path: Path) -> None:
    x = torch.randn(3, 4, 2)
    longhand.generate(function, (x.clone(),), out=tmp_path / "unit")
    unit = longhand.load(tmp_path / "unit")
    for given in (x, torch.randn(3, 4, 2)):
        ours, theirs = given.clone(), given.clone()
        found, expected = unit(ours), function(theirs)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(ours, theirs)
        assert _described(found, ours) == _described(expected, theirs)


def test_a_recorded_unit_cannot_give_its_own_memory_for_the_caller_s(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="returns a view of"):
        longhand.generate(
            as_complex,
            (torch.randn(3, 4, 2),),
            out=tmp_path / "unit",
            device="cuda",
            arch="sm_90",
            mode="reduce-overhead",
        )


def test_two_views_of_what_is_no_result_are_refused(tmp_path: Path) -> None:
    def siblings(x):
        made = torch.view_as_complex(x * 2)
        return made.conj(), made[1:]

    with pytest.raises(CaptureError, match="returns a view of"):
        longhand.generate(siblings, (torch.randn(3, 4, 2),), out=tmp_path / "unit")
