"""runtime.py is laid out as black would: its parts are written so, and black is not asked again."""

from __future__ import annotations

import random

import pytest

from longhand.emit.unit.templates import _PARTS, _load, format_python, write_runtime

NAMES = sorted(
    {
        name
        for part in _PARTS
        if (found := _load(part)) is not None
        for one in found.definitions
        for name in one.names
    }
)


@pytest.mark.parametrize("seed", range(12))
def test_black_changes_nothing(seed: int) -> None:
    chosen = random.Random(seed)
    roots = chosen.sample(NAMES, chosen.randint(1, 1 + seed))
    text = write_runtime(roots)
    assert format_python(text) == text


def test_black_changes_nothing_of_all_of_it() -> None:
    assert len(NAMES) > 100
    text = write_runtime(NAMES)
    assert format_python(text) == text


def test_a_unit_without_imports_has_no_gap() -> None:
    assert write_runtime([]).count("\n") == 1
