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
import resource
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tests.autograd import quick_judging
from tests.autograd.op_sweep import BAD, Door, Outcome
from tests.autograd.sample_book import AT_ONCE, At, Book, Job, Known
from tests.autograd.sample_work import Settings, group_row, row_of, warm_up, work

__all__ = ["sweep"]

_MOST_DEATHS = 50  # of one piece of work
_FAST = Path("/dev/shm")  # folders here cost no disk


@dataclasses.dataclass
class Worker:
    """A process, and what it is at."""

    process: Any
    ours: multiprocessing.connection.Connection
    job: Job | None = None
    at: At | None = None
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

    def give(self, job: Job, known: Known) -> None:
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
            number, door, train = self.at or (-1, Door.COMPILE.name, False)
            if isinstance(number, tuple):
                book.add(group_row(*self.job[:2], (number, door, train), words))
            else:
                book.add(row_of(*self.job[:2], (number, door, train), Outcome.CRASH, words))
                print(f"CRASH: {self.job[:2]} sample {number} {door.lower()}: {words}", flush=True)
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
        spent = _seconds_of_children()
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
    print(f"{_seconds_of_children() - spent:.0f} seconds of processors", flush=True)
    return len(queue) + sum(worker.job is not None for worker in workers)


def _seconds_of_children() -> float:
    """What processes have computed that this one started, and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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

    def again(self, job: Job | None, at: At | None) -> None:
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
            warm_up()
            gc.collect()
            gc.freeze()
            until.callback(gc.unfreeze)
        yield
