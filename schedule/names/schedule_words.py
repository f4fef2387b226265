"""What each kernel schedule adds to the name and the title of its kernels."""

from __future__ import annotations

import dataclasses

from longhand.schedule.plan import KernelPlan


@dataclasses.dataclass(frozen=True)
class ScheduleWords:
    """Words for one schedule.

    Attributes:
        adjective: What sets such a kernel apart in its name; empty where its shape tells it (``flat``, ``blocks``).
        is_best: Whether of all that may tell two kernels of the same math apart that word is the best.
        walk: How it goes through its space, for the title. Empty where that is plain, or facts of the plan tell it.
    """

    adjective: str = ""
    is_best: bool = False
    walk: str = ""


_WORDS = {
    "elementwise": ScheduleWords(),
    "foreach": ScheduleWords(),
    "transposed": ScheduleWords("transposed", is_best=True),
    "columns": ScheduleWords("columns", is_best=True, walk="column by column"),
    "windows": ScheduleWords("windows", walk="window by window"),
    "rows_and_columns": ScheduleWords(walk="in one pass over the rows"),
    "rows_split": ScheduleWords("split", is_best=True),
    "rows_persistent": ScheduleWords("rows"),
    "rows_looped": ScheduleWords("rows"),
}


def words_of(plan: KernelPlan) -> ScheduleWords:
    """The words of a kernel's schedule; one that has none here is called by its own name."""
    name = plan.schedule.name
    return _WORDS.get(name) or ScheduleWords(name)
