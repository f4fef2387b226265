"""What is known of one model: a verdict for each thing that was tried, with numbers; JSON lines on disk."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from pathlib import Path
from typing import Any

from benchmarks.report import versions


class Part(enum.Enum):
    """What is tried."""

    MADE = "made"  # the model alone, called in eager
    CAPTURE = "capture"
    DYNAMO = "dynamo"
    INFERENCE = "inference"
    TRAINING = "training"
    CUBINS = "cubins"
    INTERPRETER = "interpreter"
    SPEED = "speed"


class Verdict(enum.Enum):
    """What came of it."""

    RIGHT = "right"
    WRONG = "wrong"
    UNDECIDED = "undecided"  # other than eager, and so is eager with other last bits: it has other sizes then
    EAGER = "eager"  # right or not, some of it does not run in what was generated
    FAILED = "failed"  # an exception, where eager has none
    CRASHED = "crashed"  # the process died
    TIMEOUT = "timeout"
    NOT_MADE = "not made"  # eager has no such model here: no row of the table


@dataclasses.dataclass(frozen=True)
class Result:
    """One part of one row.

    Attributes:
        verdict: What came of it.
        note: Why, in a line; empty where it is right.
        numbers: Errors, graphs, breaks, milliseconds: whatever the part measures.
        seconds: How long it took.
    """

    verdict: Verdict
    note: str = ""
    numbers: dict[str, Any] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**dataclasses.asdict(self), "verdict": self.verdict.value}

    @staticmethod
    def from_json(values: dict[str, Any]) -> Result:
        """What `as_json` returned."""
        return Result(**{**values, "verdict": Verdict(values["verdict"])})


Key = tuple[str, str, str]  # the row, what it ran as ("cpu float32"), the part


class Book:
    """Results by row, setting and part: each is a line of a file, written as it comes; the last line of a key counts.

    Args:
        path: The file; without one nothing is kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.results: dict[Key, Result] = {}
        self.measured_with: dict[Key, str] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                key = entry["row"], entry["setting"], entry["part"]
                self.results[key] = Result.from_json(entry["result"])
                self.measured_with[key] = _with_date(entry.get("with", ""), entry.get("on", ""))

    def add(self, row: str, setting: str, part: Part, result: Result) -> None:
        """Keeps one result, and with what it was measured and when: another machine may write the document."""
        key, today = (row, setting, part.value), datetime.date.today().isoformat()
        self.results[key], self.measured_with[key] = result, _with_date(versions(), today)
        if self._path is not None:
            entry = {"row": row, "setting": setting, "part": part.value, "with": versions(), "on": today}
            entry["result"] = result.as_json()
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def knows(self, row: str, setting: str, part: Part) -> bool:
        """Whether a part was tried."""
        return (row, setting, part.value) in self.results


def _with_date(measured_with: str, day: str) -> str:
    return ", ".join(words for words in (measured_with, day) if words)
