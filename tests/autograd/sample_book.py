"""What a run over the samples of PyTorch's operator database has found: rows, a line of JSON each, kept as they come.

A run goes on where its book ends. Books of earlier runs, on other machines too, tell what need not be done again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

__all__ = ["AT_ONCE", "Book", "Job", "Key", "Place"]

AT_ONCE = 24  # samples of a piece of work: a process does one after the other

Job = tuple[str, str, int]  # an op, a dtype, and the place of the first of its samples
Place = tuple[int, str, bool]  # a sample's number, the door, and whether it trains
Key = tuple[str, str, int, str, bool]  # an op, a dtype, and the place


class Book:
    """Rows as they come; what is known is not done again.

    Attributes:
        rows: By op, dtype, sample, door and training.
        finished: Pieces of work with nothing left.
        samples: How many there are of an op in a dtype, where it is known.
        runs: What it was found with: a line for each run that went into it.
    """

    def __init__(self, path: Path, drawn: list[Any], earlier: Iterable[Path] = ()) -> None:
        self._path = path
        self._drawn = drawn
        self.rows: dict[Key, dict[str, Any]] = {}
        self.finished: set[Job] = set()
        self.samples: dict[tuple[str, str], int] = {}
        self.runs: list[dict[str, Any]] = []
        self._known: dict[tuple[str, str], set[Place]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for book in (*earlier, path):
            for line in book.read_text().splitlines() if book.exists() else ():
                try:
                    self._take(json.loads(line))
                except ValueError:
                    continue  # the last line of a run that was ended

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

    def known(self, job: Job) -> set[Place]:
        """The samples, doors and steps of an op in a dtype that there are rows of."""
        return self._known.get(job[:2], set())

    def forget(self, key: Key) -> None:
        """As if there were no such row."""
        del self.rows[key]
        self._known[key[:2]].discard(key[2:])
        self.finished = {job for job in self.finished if job[:2] != key[:2]}

    def _take(self, row: dict[str, Any]) -> None:
        if "run" in row:
            self.runs.append(row["run"])
        elif "finished" not in row:
            at = (row["sample"], row["door"], row["train"])
            self.rows[row["op"], row["dtype"], *at] = row
            self._known.setdefault((row["op"], row["dtype"]), set()).add(at)
        elif "first" in row and row["drawn"] == self._drawn:
            self.samples[row["op"], row["dtype"]] = row["samples"]
            if row["finished"]:
                self.finished.add((row["op"], row["dtype"], row["first"]))
