"""How many elements a program takes follows from how many of their values are alive at once."""

from __future__ import annotations

import pytest

from longhand.schedule.kernels.schedules.elementwise import ENTRY
from longhand.schedule.kernels.schedules.entry import KernelWork
from longhand.schedule.kernels.schedules.registry import choose_tunables
from longhand.schedule.targets import TRITON


@pytest.mark.parametrize(
    ("live_words", "elements"), [(1, 2048), (8, 2048), (12, 2048), (19, 1024), (29, 512)]
)
def test_crowded_blocks_are_smaller(live_words: int, elements: int) -> None:
    work = KernelWork(has_rows=True, has_cols=True, element_bytes=4, live_words=live_words)
    assert {tunable.name: tunable.value for tunable in choose_tunables(ENTRY, TRITON, work)}[
        "ELEMENTS"
    ] == elements
