"""The counts of units, as a table and beside those of before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.readability.counts import COUNTERS
from benchmarks.readability.depth import MOST
from benchmarks.readability.text import UnitText

BASELINE = Path(__file__).resolve().parent / "baseline.json"
Counts = dict[str, dict[str, int]]  # by "model device": by counter


def count(unit: UnitText, is_told: bool = False) -> dict[str, int]:
    """How many of each there are, and how many kernels."""
    by_word = {word: counter(unit) for word, counter in COUNTERS.items()}
    if is_told:
        for word, places in by_word.items():
            print(*(f"{unit.model} {unit.device}: {word}: {place}" for place in places), sep="\n")
    return {"kernels": len(unit.kernels), **{word: len(places) for word, places in by_word.items()}}


def table(counts: Mapping[str, Mapping[str, int]]) -> list[list[str]]:
    """A row for each unit, the sums, and of percentages the largest."""
    columns = ["kernels", *COUNTERS]
    rows = [["unit", *columns, *MOST]]
    rows += [
        [unit, *(str(of_unit.get(column, "")) for column in (*columns, *MOST))]
        for unit, of_unit in counts.items()
    ]
    sums = [sum(of_unit[column] for of_unit in counts.values()) for column in columns]
    largest = [max((of_unit.get(column, 0) for of_unit in counts.values()), default=0) for column in MOST]
    return [*rows, ["all", *map(str, [*sums, *largest])]]


def regressions(
    counts: Mapping[str, Mapping[str, int]], baseline: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """What there is more of than before, in words; a unit that the baseline lacks is one."""
    worse = []
    for unit, now in counts.items():
        before = baseline.get(unit)
        if before is None:
            worse.append(f"{unit}: the baseline does not have it; record it with --update")
            continue
        worse += [
            f"{unit}: {word}: {now[word]}, before {before.get(word, 0)}"
            for word in (*COUNTERS, *MOST)
            if now.get(word, 0) > max(before.get(word, 0), MOST.get(word, 0))
        ]
    return worse
