"""Processes that judge samples of PyTorch's operator database, and what gives them work.

They are forks of a process that has run a few samples already, so that they begin with all of torch that they need. One
that dies, hangs or has grown too large is replaced; what it was at is a row, too.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import heapq
import logging
import multiprocessing
import multiprocessing.connection
import os
import random
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import longhand
from tests.autograd import quick_judging
from tests.autograd.op_programs import Program, every_program
from tests.autograd.op_sweep import BAD, Case, Door, Outcome, outcome
from tests.autograd.sample_book import AT_ONCE, Book, Job, Place

__all__ = ["LIMIT", "Settings", "step_words", "sweep"]

LIMIT = 240.0  # seconds for one sample; `--limit` sets another
_MOST_DEATHS = 50  # of one piece of work
_WARM = ("softmax", torch.float32)  # what forks know before they begin
_FAST = Path("/dev/shm")  # folders here cost no disk


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
    """

    most: int | None
    seed: int
    only: str = ""
    plain: bool = False
    quick: bool = False
    limit: float = LIMIT
    memory: int = 2500
    part: tuple[int, int] = (1, 1)

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
            cases = _cases(made[first : first + AT_ONCE]) if is_due else ()
            with tempfile.TemporaryDirectory() as kernels:  # of one op: others have others
                os.environ["XDG_CACHE_HOME"] = kernels
                for case in cases:
                    at = (case.program.number, case.door.name, case.train)
                    if at not in known and settings.only in ("", step_words(case.door, case.train)):
                        connection.send(at)
                        connection.send(_judged(case, name, dtype))
            said = {"op": name, "dtype": dtype, "first": first, "finished": is_due, "samples": len(made)}
            connection.send(said | {"drawn": settings.drawn, "megabytes": _megabytes()})


def _drawn_programs(name: str, dtype: str, settings: Settings, tell: Callable[[Any], None]) -> list[Program]:
    try:
        made = list(every_program(name, getattr(torch, dtype)))
    except Exception as error:  # the database's own
        words = f"no samples: {type(error).__name__}: {error}"[:500]
        tell(_row(name, dtype, (-1, Door.COMPILE.name, False), Outcome.RAISES, words))
        return []
    if settings.most is not None and len(made) > settings.most:
        made = random.Random(f"{settings.seed} {name} {dtype}").sample(made, settings.most)
    return made


def _judged(case: Case, name: str, dtype: str) -> dict[str, Any]:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LONGHAND_CACHE_DIR"] = folder
        torch.compiler.reset()
        longhand.reset()
        try:
            kind, words = outcome(case)
        except Exception as error:
            kind, words = Outcome.CRASH, f"sweep: {type(error).__name__}: {error}"
    quick_judging.forget_units()
    at = (case.program.number, case.door.name, case.train)
    row = _row(name, dtype, at, kind, words) | {"seconds": round(time.monotonic() - started, 2)}
    return row | ({"text": case.program.text} if kind in BAD else {})


def _megabytes() -> int:
    """How large this process is."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def step_words(door: Door, train: bool) -> str:
    """``generate training`` and the like."""
    return f"{door.value} {'training' if train else 'inference'}"


def _cases(programs: list[Program]) -> Iterator[Case]:
    """Programs through both doors, in training if anything carries gradients, and in inference."""
    for program in programs:
        carries = any(tensor.requires_grad for tensor in program.tensors)
        for door in Door:
            for train in (True, False) if carries else (False,):
                yield Case(program, door, train)


def _row(name: str, dtype: str, at: Place, kind: Outcome, words: str) -> dict[str, Any]:
    number, door, train = at
    row = {"op": name, "dtype": dtype, "sample": number, "door": door, "train": train}
    return row | {"outcome": kind.name, "words": words[:800]}


@dataclasses.dataclass
class Worker:
    """A process, and what it is at."""

    process: Any
    ours: multiprocessing.connection.Connection
    job: Job | None = None
    at: Place | None = None
    since: float = 0.0
    megabytes: int = 0

    @classmethod
    def start(cls, settings: Settings) -> Worker:
        """An idle one."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, settings), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, since=time.monotonic())

    def give(self, job: Job, known: set[Place]) -> None:
        """Something to do."""
        self.job, self.at, self.since = job, None, time.monotonic()
        self.ours.send((job, known))

    def end(self) -> None:
        """Whatever it is at."""
        self.process.kill()
        self.process.join()
        self.ours.close()

    def answers(self, book: Book, limit: float) -> bool:
        """Takes what it says; False if it died, or says nothing for too long: that is a row, too."""
        words = "the process died"
        try:
            while self.ours.poll():
                self._hear(self.ours.recv(), book)
            if time.monotonic() < self.since + limit and self.process.is_alive():
                return True
            if self.process.is_alive():
                words = f"no answer within {limit:.0f} seconds"
        except (EOFError, ConnectionResetError):
            pass
        self.end()
        if self.job is not None:
            at = self.at or (-1, Door.COMPILE.name, False)
            book.add(_row(*self.job[:2], at, Outcome.CRASH, words))
            print(f"CRASH: {self.job[:2]} sample {at[0]} {at[1].lower()}: {words}", flush=True)
        return False

    def _hear(self, said: Any, book: Book) -> None:
        self.since = time.monotonic()
        if isinstance(said, tuple):
            self.at = said
            return
        book.add(said)
        self.at = None
        if said.get("outcome") in {kind.name for kind in BAD}:
            where = f"{said['op']} {said['dtype']} sample {said['sample']} {said['door'].lower()}"
            print(f"{said['outcome']}: {where}: {said['words'][:300]}", flush=True)
        if "finished" in said:
            self.job, self.megabytes = None, said["megabytes"]


def sweep(jobs: list[Job], book: Book, *, n_processes: int, settings: Settings, deadline: float) -> int:
    """Does the jobs until the deadline, each op's first samples before others; how many are left."""
    queue = _Queue(jobs, book, settings)
    with _ready(settings):
        workers = [Worker.start(settings) for _ in range(min(n_processes, len(jobs)))]
        try:
            while time.monotonic() < deadline and (len(queue) or any(worker.job for worker in workers)):
                for place, worker in enumerate(workers):
                    job = worker.job
                    if not worker.answers(book, settings.limit):
                        queue.again(worker.job, worker.at)
                        worker = workers[place] = Worker.start(settings)
                    elif job is not None and worker.job is None:
                        queue.end(job)
                    if worker.job is None and worker.megabytes > settings.memory:
                        worker.end()
                        worker = workers[place] = Worker.start(settings)
                    if worker.job is None and (job := queue.next()) is not None:
                        worker.give(job, book.known(job))
                multiprocessing.connection.wait([worker.ours for worker in workers], timeout=1.0)
        finally:
            for worker in workers:
                worker.end()
    return len(queue) + sum(worker.job is not None for worker in workers)


class _Queue:
    """What is left to do: each op's first samples, then all others in an order that does not know of ops."""

    def __init__(self, jobs: list[Job], book: Book, settings: Settings) -> None:
        self._book = book
        self._settings = settings
        self._tries: collections.Counter[Job] = collections.Counter()
        self._first = [job for job in reversed(jobs) if not self._is_done(job)]
        self._others: list[tuple[int, Job]] = []
        for job in jobs:
            self.end(job)

    def __len__(self) -> int:
        return len(self._first) + len(self._others)

    def next(self) -> Job | None:
        """What is to be done now."""
        if self._first:
            return self._first.pop()
        return heapq.heappop(self._others)[1] if self._others else None

    def end(self, job: Job) -> None:
        """A piece is done: of an op's first one, the others are known now."""
        for first in range(AT_ONCE, self._book.samples.get(job[:2], 0) if job[2] == 0 else 0, AT_ONCE):
            other = (*job[:2], first)
            if not self._is_done(other):
                heapq.heappush(self._others, (zlib.crc32(repr(other).encode()), other))

    def again(self, job: Job | None, at: Place | None) -> None:
        """A process died at a piece: the other samples."""
        if job is not None and at is not None and self._tries[job] < _MOST_DEATHS:
            self._tries[job] += 1
            self._first.append(job)

    def _is_done(self, job: Job) -> bool:
        return job in self._book.finished or (
            job[:2] in self._book.samples and not self._settings.includes(job)
        )


@contextlib.contextmanager
def _ready(settings: Settings) -> Iterator[None]:
    """This process has what those that it forks need; what they write lies below one folder, gone afterwards."""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    if settings.plain:
        quick_judging.unformatted()
    place = _FAST if settings.quick and os.access(_FAST, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder, contextlib.ExitStack() as until:
        tempfile.tempdir, before = folder, tempfile.tempdir
        until.callback(setattr, tempfile, "tempdir", before)
        if settings.quick:
            until.enter_context(quick_judging.compiled_headers())
            quick_judging.be_quick()
            for case in _cases(list(every_program(*_WARM))[:2]):
                _judged(case, "", "")
            gc.collect()
            gc.freeze()
            until.callback(gc.unfreeze)
        yield
