"""What one process does: draws the samples of an op in a dtype, judges them in groups or alone, and answers with rows.

Before it judges anything it says what: if it dies then, that is what ended it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing.connection
import os
import random
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import longhand
from tests.autograd import quick_judging
from tests.autograd.eager_runs import EagerRuns
from tests.autograd.op_programs import Program, every_program
from tests.autograd.op_sweep import BAD, Case, Door, Outcome, outcome
from tests.autograd.sample_book import AT_ONCE, Job, Known, Place
from tests.autograd.sample_groups import GroupVerdict, Judges, judged_together, may_be_grouped, settle

__all__ = ["GROUP", "LIMIT", "Settings", "group_row", "row_of", "step_words", "warm_up", "work"]

LIMIT = 240.0  # seconds for one sample, or one group; `--limit` sets another
GROUP = 12  # samples of a program: more of them take g++ and the scheduler longer than they save
_WARM = ("softmax", torch.float32)  # what forks know before they begin


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is drawn, and how it is run.

    Attributes:
        most: Samples of an op in a dtype.
        seed: Draws them.
        only: A door and step, or all.
        plain: Generated text stays as it is printed.
        quick: What cases share is not made again for each: see `quick_judging`.
        limit: Seconds for a sample.
        memory: Megabytes beyond which a process is replaced.
        part: (i, n): the i-th of n parts of the work.
        group: Samples in one program at most; 1 judges each by itself.
    """

    most: int | None
    seed: int
    only: str = ""
    plain: bool = False
    quick: bool = False
    limit: float = LIMIT
    memory: int = 2500
    part: tuple[int, int] = (1, 1)
    group: int = GROUP

    @property
    def drawn(self) -> list[Any]:
        """What says which samples there are."""
        return [self.most, self.seed, *([self.only] if self.only else [])]

    def includes(self, job: Job) -> bool:
        """Whether a piece of work is of this part."""
        first, step = self.part
        return zlib.crc32(repr(job).encode()) % step == first - 1


def work(connection: multiprocessing.connection.Connection, settings: Settings) -> None:
    """A process of its own: takes work with what is known of it, and answers with rows."""
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
        programs: tuple[tuple[str, str], list[Program]] = (("", ""), [])
        while (given := connection.recv()) is not None:
            (name, dtype, first), known = given
            if programs[0] != (name, dtype):
                programs = (name, dtype), _drawn_programs(name, dtype, settings, connection.send)
            made = programs[1]
            is_due = settings.includes((name, dtype, first))
            if is_due:
                with tempfile.TemporaryDirectory() as kernels:  # of one op: others have others
                    os.environ["XDG_CACHE_HOME"] = kernels
                    _Piece(name, dtype, known, settings, connection.send).judge(made[first : first + AT_ONCE])
            said = {"op": name, "dtype": dtype, "first": first, "finished": is_due, "samples": len(made)}
            connection.send(said | {"drawn": settings.drawn, "megabytes": _megabytes()})


def warm_up() -> None:
    """Runs a few samples, so that forks have all of torch that they need."""
    with contextlib.suppress(StopIteration):
        piece = _Piece("", "", Known(), Settings(None, 0), lambda _: None)
        piece.judge(list(every_program(*_WARM))[:2])


@dataclasses.dataclass(frozen=True)
class _Piece:
    """Some samples of an op in a dtype.

    Attributes:
        name: The op's.
        dtype: The samples'.
        known: What needs no judging.
        settings: How it is done.
        tell: Takes what is judged next, and rows.
    """

    name: str
    dtype: str
    known: Known
    settings: Settings
    tell: Callable[[Any], None]

    def judge(self, programs: Sequence[Program]) -> None:
        """Through both doors, in training where anything carries gradients, and in inference."""
        for train in (True, False):
            carrying = [one for one in programs if not train or any(t.requires_grad for t in one.tensors)]
            runs = [EagerRuns(program, train=train) for program in carrying]
            for door in Door:
                if self.settings.only in ("", step_words(door, train)):
                    self._judge_step(runs, door, train)

    def _judge_step(self, runs: Sequence[EagerRuns], door: Door, train: bool) -> None:
        def alone(one: EagerRuns) -> bool:
            at = (one.program.number, door.name, train)
            self.tell(at)
            row = self._alone(one, at)
            self.tell(row)
            return bool(row["outcome"] == Outcome.RIGHT.name)

        def together(group: Sequence[EagerRuns]) -> GroupVerdict:
            at = (_numbers(group), door.name, train)
            self.tell(at)
            verdict, row = self._together(group, at)
            self.tell(row)
            return verdict

        def has_failed(group: Sequence[EagerRuns]) -> bool:
            return (_numbers(group), door.name, train) in self.known.failed

        judges = Judges(together, alone, has_failed)
        due = [one for one in runs if (one.program.number, door.name, train) not in self.known.places]
        pays = self.settings.group > 1 and self.known.may_be_right_together(door.name, train=train)
        grouped = []
        for one in due:
            self.tell((one.program.number, door.name, train))  # eager may be what ends the process
            with _step_of_eager(train):
                is_grouped = pays and may_be_grouped(one)
            if is_grouped:
                grouped.append(one)
            else:
                alone(one)
        for first in range(0, len(grouped), self.settings.group):
            settle(grouped[first : first + self.settings.group], judges)

    def _alone(self, runs: EagerRuns, at: Place) -> dict[str, Any]:
        case = Case(runs.program, Door[at[1]], at[2])
        started = time.monotonic()
        with _nothing_compiled():
            try:
                kind, words = outcome(case, runs)
            except Exception as error:
                kind, words = Outcome.CRASH, f"sweep: {type(error).__name__}: {error}"
        row = row_of(self.name, self.dtype, at, kind, words) | _seconds(started)
        return row | ({"text": runs.program.text} if kind in BAD else {})

    def _together(
        self, group: Sequence[EagerRuns], at: tuple[tuple[int, ...], str, bool]
    ) -> tuple[GroupVerdict, dict[str, Any]]:
        started = time.monotonic()
        with _nothing_compiled():
            try:
                verdict = judged_together(group, Door[at[1]])
            except Exception as error:
                verdict = GroupVerdict(f"sweep: {type(error).__name__}: {error}")
        row = group_row(self.name, self.dtype, at, verdict.words) | (
            {"raised": True} if verdict.has_raised else {}
        )
        return verdict, row | _seconds(started)


@contextlib.contextmanager
def _nothing_compiled() -> Iterator[None]:
    """As in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LONGHAND_CACHE_DIR"] = folder
        torch.compiler.reset()
        longhand.reset()
        yield
    quick_judging.forget_units()


@contextlib.contextmanager
def _step_of_eager(train: bool) -> Iterator[None]:
    with warnings.catch_warnings(), torch.set_grad_enabled(train):
        warnings.simplefilter("ignore")
        yield


def _numbers(runs: Sequence[EagerRuns]) -> tuple[int, ...]:
    return tuple(one.program.number for one in runs)


def _seconds(started: float) -> dict[str, float]:
    return {"seconds": round(time.monotonic() - started, 2)}


def _drawn_programs(name: str, dtype: str, settings: Settings, tell: Callable[[Any], None]) -> list[Program]:
    try:
        made = list(every_program(name, getattr(torch, dtype)))
    except Exception as error:  # the database's own
        words = f"no samples: {type(error).__name__}: {error}"[:500]
        tell(row_of(name, dtype, (-1, Door.COMPILE.name, False), Outcome.RAISES, words))
        return []
    if settings.most is not None and len(made) > settings.most:
        made = random.Random(f"{settings.seed} {name} {dtype}").sample(made, settings.most)
    return made


def _megabytes() -> int:
    """How large this process is."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def step_words(door: Door, train: bool) -> str:
    """``generate training`` and the like."""
    return f"{door.value} {'training' if train else 'inference'}"


def row_of(name: str, dtype: str, at: Place, kind: Outcome, words: str) -> dict[str, Any]:
    """What is known of one sample through one door in one step."""
    number, door, train = at
    row = {"op": name, "dtype": dtype, "sample": number, "door": door, "train": train}
    return row | {"outcome": kind.name, "words": words[:800]}


def group_row(
    name: str, dtype: str, at: tuple[tuple[int, ...], str, bool], failed: str = ""
) -> dict[str, Any]:
    """Of a group: every sample of it is right, or it failed, which says nothing of any sample."""
    numbers, door, train = at
    row: dict[str, Any] = {"op": name, "dtype": dtype, "group": list(numbers), "door": door, "train": train}
    return row | ({"failed": failed[:300]} if failed else {"outcome": Outcome.RIGHT.name, "words": ""})
