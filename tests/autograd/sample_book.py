"""What a run over the samples of PyTorch's operator database has found: rows, a line of JSON each, kept as they come.

A run goes on where its book ends. Books of earlier runs, on other machines too, tell what need not be done again; they
may be packed by gzip. What was judged in one program is one line: each of its samples is right, and is a row. A group
in which not every sample was right is a line, too, that says nothing of its samples: it is not tried again.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

__all__ = ["AT_ONCE", "At", "Book", "Job", "Key", "Known", "Place", "lines_of"]

_ENOUGH = 3  # groups that failed, until samples of such an op go alone at once
AT_ONCE = 24  # samples of a piece of work: a process does one after the other

Job = tuple[str, str, int]  # an op, a dtype, and the place of the first of its samples
Place = tuple[int, str, bool]  # a sample's number, the door, and whether it trains
Key = tuple[str, str, int, str, bool]  # an op, a dtype, and the place
GroupPlace = tuple[
    tuple[int, ...], str, bool
]  # the numbers of a group's samples, the door, and whether it trains
At = Place | GroupPlace  # what a process is at


@dataclasses.dataclass
class Known:
    """What need not be done of an op in a dtype.

    Attributes:
        places: The samples, doors and steps that there are rows of.
        failed: The groups in which not every sample was right.
        together: The doors and steps in which every sample of some group was right.
    """

    places: set[Place] = dataclasses.field(default_factory=set)
    failed: set[GroupPlace] = dataclasses.field(default_factory=set)
    together: set[tuple[str, bool]] = dataclasses.field(default_factory=set)

    def may_be_right_together(self, door: str, *, train: bool) -> bool:
        """Whether a group is worth trying: not where several failed and none was right."""
        n_failed = sum(group[1:] == (door, train) for group in self.failed)
        return (door, train) in self.together or n_failed < _ENOUGH


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a book, as they were written; none if there is no book."""
    if not path.exists():
        return
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue  # the last line of a run that was ended


class Book:
    """Rows as they come; what is known is not done again.

    Attributes:
        rows: By op, dtype, sample, door and training.
        finished: Pieces of work with nothing left.
        samples: How many there are of an op in a dtype, where it is known.
        runs: What it was found with: a line for each run that went into it.
        failed: Groups in which not every sample was right, and why.
    """

    def __init__(self, path: Path, drawn: list[Any], earlier: Iterable[Path] = ()) -> None:
        self._path = path
        self._drawn = drawn
        self.rows: dict[Key, dict[str, Any]] = {}
        self.finished: set[Job] = set()
        self.samples: dict[tuple[str, str], int] = {}
        self.runs: list[dict[str, Any]] = []
        self.failed: list[dict[str, Any]] = []
        self._known: dict[tuple[str, str], Known] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for book in (*earlier, path):
            for line in lines_of(book):
                self._take(line)

    def add(self, row: dict[str, Any]) -> None:
        """Keeps a row."""
        self._take(row)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def begin(self, pairs: int) -> None:
        """Says what the rows that follow were found with."""
        run = {
            "date": time.strftime("%Y-%m-%d"),
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "pairs": pairs,
            "drawn": self._drawn,
        }
        self.add({"run": run})

    def n_samples(self, jobs: Iterable[Job]) -> int | None:
        """How many samples there are of all that is to be done; None where any of them is left."""
        pairs = {job[:2] for job in jobs}
        if not pairs <= self.samples.keys():
            return None
        pieces = {(*pair, first) for pair in pairs for first in range(0, self.samples[pair], AT_ONCE)}
        return sum(self.samples[pair] for pair in pairs) if pieces <= self.finished else None

    def known(self, job: Job) -> Known:
        """What there is of an op in a dtype."""
        return self._known.get(job[:2], Known())

    def forget(self, key: Key) -> None:
        """As if there were no such row."""
        del self.rows[key]
        known = self._known[key[:2]]
        known.places.discard(key[2:])
        known.failed = {group for group in known.failed if key[2] not in group[0] or group[1:] != key[3:]}
        self.finished = {job for job in self.finished if job[:2] != key[:2]}

    def _take(self, row: dict[str, Any]) -> None:
        if "run" in row:
            self.runs.append(row["run"])
        elif "failed" in row:
            self.failed.append(row)
            self._known_of(row).failed.add((tuple(row["group"]), row["door"], row["train"]))
        elif "group" in row:
            self._known_of(row).together.add((row["door"], row["train"]))
            common = {name: value for name, value in row.items() if name not in ("group", "seconds")}
            for number in row["group"]:
                self._take_sample(common | {"sample": number, "of": len(row["group"])})
        elif "finished" not in row:
            self._take_sample(row)
        elif "first" in row and row["drawn"] == self._drawn:
            self.samples[row["op"], row["dtype"]] = row["samples"]
            if row["finished"]:
                self.finished.add((row["op"], row["dtype"], row["first"]))

    def _take_sample(self, row: dict[str, Any]) -> None:
        at = (row["sample"], row["door"], row["train"])
        self.rows[row["op"], row["dtype"], *at] = row
        self._known_of(row).places.add(at)

    def _known_of(self, row: dict[str, Any]) -> Known:
        return self._known.setdefault((row["op"], row["dtype"]), Known())
