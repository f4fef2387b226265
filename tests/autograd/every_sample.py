"""Every op of PyTorch's operator database, in every dtype that it takes on the CPU, on every sample.

Each is generated and compiled: in inference and, where there are gradients, in training, with values and gradients
compared. ``python -m tests.autograd.every_sample -j 16 --book build/samples.jsonl`` goes on where the book ends, and
can be ended at any moment; ``--budget 480`` ends it after eight minutes, with the summary of the book. Ops and dtypes
come in an order drawn by ``--seed``, so that any part of them is a fair sample; ``--most 2`` draws two samples of each;
``--share 2/8`` takes the second of eight parts; ``--only "generate training"`` takes one door and step; ``--plain``
leaves black and clang-format out, which are a sixth of the time and change no value; ``--table`` only prints what the
book tells. What eager itself refuses, or has nothing to differentiate in, is no case that counts.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import longhand
from longhand.emit.unit import files
from tests.autograd import refusals
from tests.autograd.op_programs import Program, every_program, op_names
from tests.autograd.op_sweep import BAD, Case, Door, Outcome, outcome

LIMIT = 240.0  # seconds for one sample; `--limit` sets another
DTYPES = (
    *("float32", "bfloat16", "float64", "int64", "bool", "float16", "complex64"),
    *("int32", "uint8", "int8", "int16", "complex128"),
)
GOOD = (Outcome.RIGHT, Outcome.NEAR, Outcome.EAGER, Outcome.MORE)
NO_CASE = (Outcome.RAISES, Outcome.NOTHING)  # there is nothing to be right in

Job = tuple[str, str]  # an op and a dtype
Key = tuple[str, str, int, str, bool]  # with the sample's number, the door, and whether it trains


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is drawn, and how it is run.

    Attributes:
        most: Samples of an op in a dtype.
        seed: Draws them.
        only: A door and step, or all.
        plain: Generated text stays as it is printed.
        limit: Seconds for a sample.
        kernels: Where built C++ is kept, for all processes together.
    """

    most: int | None
    seed: int
    only: str = ""
    plain: bool = False
    limit: float = LIMIT
    kernels: str = ""

    @property
    def drawn(self) -> list[Any]:
        """What says which samples there are."""
        return [self.most, self.seed, *([self.only] if self.only else [])]


class Book:
    """Rows as they come, a line of JSON each; what is known is not done again.

    Attributes:
        rows: By op, dtype, sample, door and training.
        finished: Ops and dtypes with nothing left.
        runs: What it was found with: a line for each run that went into it.
    """

    def __init__(self, path: Path, drawn: list[Any]) -> None:
        self.path = path
        self._drawn = drawn
        self.rows: dict[Key, dict[str, Any]] = {}
        self.finished: set[Job] = set()
        self.runs: list[dict[str, Any]] = []
        self._known: dict[Job, list[tuple[int, str, bool]]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                self._take(json.loads(line))
            except ValueError:
                continue  # the last line of a run that was ended

    def add(self, row: dict[str, Any]) -> None:
        """Keeps a row."""
        self._take(row)
        with self.path.open("a") as file:
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
        self.runs.append(run)
        with self.path.open("a") as file:
            file.write(json.dumps({"run": run}) + "\n")

    def known(self, job: Job) -> list[tuple[int, str, bool]]:
        """The samples, doors and steps of a job that there are rows of."""
        return self._known.get(job, [])

    def forget(self, key: Key) -> None:
        """As if there were no such row."""
        del self.rows[key]
        self._known[key[:2]] = [at for at in self._known[key[:2]] if at != key[2:]]

    def _take(self, row: dict[str, Any]) -> None:
        if "run" in row:
            self.runs.append(row["run"])
            return
        if "finished" not in row:
            at = (row["sample"], row["door"], row["train"])
            self.rows[row["op"], row["dtype"], *at] = row
            self._known.setdefault((row["op"], row["dtype"]), []).append(at)
        elif "drawn" in row and row["drawn"] in (
            self._drawn,
            [None, *self._drawn[1:]],
            [None, row["drawn"][1]],
        ):
            self.finished.add((row["op"], row["dtype"]))


def work(connection: multiprocessing.connection.Connection, settings: Settings) -> None:
    """A process of its own: takes jobs with what is known of them, and answers with rows."""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    if settings.plain:
        files.format_files = dict
    with tempfile.TemporaryDirectory() as cache, open(os.devnull, "w") as nothing:
        os.environ["LONGHAND_CACHE_DIR"] = cache
        os.environ["XDG_CACHE_HOME"] = settings.kernels or cache
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
        while (given := connection.recv()) is not None:
            (name, dtype), known = given
            try:
                made = list(every_program(name, getattr(torch, dtype)))
            except Exception as error:  # the database's own
                made = []
                words = f"no samples: {type(error).__name__}: {error}"[:500]
                connection.send(_row(name, dtype, -1, Door.COMPILE, False, Outcome.RAISES, words))
            if settings.most is not None and len(made) > settings.most:
                made = random.Random(f"{settings.seed} {name} {dtype}").sample(made, settings.most)
            for case in (case for program in made for case in _cases(program)):
                at = (case.program.number, case.door.name, case.train)
                if at in known or settings.only not in ("", _step(case.door, case.train)):
                    continue
                connection.send(at)
                started = time.monotonic()
                torch.compiler.reset()
                longhand.reset()
                try:
                    kind, words = outcome(case)
                except Exception as error:
                    kind, words = Outcome.CRASH, f"sweep: {type(error).__name__}: {error}"
                row = _row(name, dtype, case.program.number, case.door, case.train, kind, words)
                row["seconds"] = round(time.monotonic() - started, 2)
                connection.send(row | ({"text": case.program.text} if kind in BAD else {}))
            connection.send({"op": name, "dtype": dtype, "finished": len(made), "drawn": settings.drawn})


def _step(door: Door, train: bool) -> str:
    return f"{door.value} {'training' if train else 'inference'}"


def _cases(program: Program) -> Iterator[Case]:
    """A program through both doors, in training if anything carries gradients, and in inference."""
    carries = any(tensor.requires_grad for tensor in program.tensors)
    for door in Door:
        for train in (True, False) if carries else (False,):
            yield Case(program, door, train)


def _row(
    name: str, dtype: str, number: int, door: Door, train: bool, kind: Outcome, words: str
) -> dict[str, Any]:
    row = {"op": name, "dtype": dtype, "sample": number, "door": door.name, "train": train}
    return row | {"outcome": kind.name, "words": words[:800]}


@dataclasses.dataclass
class Worker:
    """A process, and what it is at."""

    process: Any
    ours: multiprocessing.connection.Connection
    job: Job | None = None
    at: tuple[int, str, bool] | None = None
    since: float = 0.0

    @classmethod
    def start(cls, settings: Settings) -> Worker:
        """An idle one."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, settings), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, since=time.monotonic())

    def give(self, job: Job, known: list[tuple[int, str, bool]]) -> None:
        """Something to do."""
        self.job, self.at, self.since = job, None, time.monotonic()
        self.ours.send((job, known))

    def answers(self, book: Book, limit: float) -> bool:
        """Takes what it says; False if it died, or says nothing for too long: that is a row, too."""
        words = "the process died"
        try:
            while self.ours.poll():
                said = self.ours.recv()
                self.since = time.monotonic()
                if isinstance(said, tuple):
                    self.at = said
                    continue
                book.add(said)
                self.at = None
                if said.get("outcome") in {kind.name for kind in BAD}:
                    where = f"{said['op']} {said['dtype']} sample {said['sample']} {said['door'].lower()}"
                    print(f"{said['outcome']}: {where}: {said['words'][:300]}", flush=True)
                if "finished" in said:
                    self.job = None
            if time.monotonic() < self.since + limit and self.process.is_alive():
                return True
            if self.process.is_alive():
                words = f"no answer within {limit:.0f} seconds"
        except EOFError:
            pass
        self.process.kill()
        self.process.join()
        if self.job is not None:
            number, door, train = self.at or (-1, Door.COMPILE.name, False)
            book.add(_row(*self.job, number, Door[door], train, Outcome.CRASH, words))
            print(f"CRASH: {self.job} sample {number} {door.lower()}: {words}", flush=True)
        return False


def sweep(
    jobs: list[Job],
    book: Book,
    *,
    n_processes: int,
    settings: Settings,
    deadline: float,
) -> int:
    """Does the jobs until the deadline; how many are left."""
    left = [job for job in reversed(jobs) if job not in book.finished]
    workers = [Worker.start(settings) for _ in range(min(n_processes, len(left)))]
    tries: collections.Counter[Job] = collections.Counter()
    try:
        while time.monotonic() < deadline and (left or any(worker.job for worker in workers)):
            for place, worker in enumerate(workers):
                if not worker.answers(book, settings.limit):
                    tries[worker.job or ("", "")] += 1
                    if worker.job is not None and worker.at is not None and tries[worker.job] < 50:
                        left.append(worker.job)  # the other samples
                    worker = workers[place] = Worker.start(settings)
                if worker.job is None and left:
                    job = left.pop()
                    worker.give(job, book.known(job))
            multiprocessing.connection.wait([worker.ours for worker in workers], timeout=1.0)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
    return len(left) + sum(worker.job is not None for worker in workers)


def table(rows: Iterable[dict[str, Any]]) -> str:
    """What the rows tell, in Markdown: counts for each dtype and door; what is refused, and why; what is wrong."""
    found = [row for row in rows if row["sample"] >= 0 or row["outcome"] in {kind.name for kind in BAD}]
    lines = ["| door | step | dtype | samples | right | " + " | ".join(kind.value for kind in Outcome) + " |"]
    lines.append("|---" * (5 + len(Outcome)) + "|")
    for door, train in itertools.product(Door, (True, False)):
        mode = [row for row in found if row["door"] == door.name and row["train"] is train]
        step = "training" if train else "inference"
        for dtype in ("all", *DTYPES):
            counts = collections.Counter(row["outcome"] for row in mode if dtype in ("all", row["dtype"]))
            if n_cases := counts.total() - sum(counts[kind.name] for kind in NO_CASE):
                good = sum(counts[kind.name] for kind in GOOD) / n_cases
                numbers = " | ".join(str(counts[kind.name]) for kind in Outcome)
                lines.append(f"| {door.value} | {step} | {dtype} | {n_cases} | {good:.2%} | {numbers} |")
    for kind in (Outcome.REFUSED, Outcome.EAGER, Outcome.WRONG, Outcome.CRASH):
        reasons: dict[str, collections.Counter[str]] = {}
        for row in found:
            if row["outcome"] == kind.name:
                words = re.sub(
                    r"\d+", "N", row["words"].strip().splitlines()[0] if row["words"].strip() else ""
                )
                ops = reasons.setdefault(f"{row['door'].lower()}: {words[:200]}", collections.Counter())
                ops[f"{row['op']} {row['dtype']}"] += 1
        lines += ["", f"## {kind.value.capitalize()}", ""]
        for words, ops in sorted(reasons.items(), key=lambda item: -item[1].total()):
            few = ", ".join(f"{op} ({count})" for op, count in ops.most_common(4))
            lines.append(f"- {ops.total()} x {words} ({few}{', ...' if len(ops) > 4 else ''})")
    return "\n".join(lines)


def brief(rows: Iterable[dict[str, Any]]) -> str:
    """Counts of each door and step, a line each."""
    lines = []
    found = list(rows)
    for door, train in itertools.product(Door, (True, False)):
        own = [row for row in found if row["door"] == door.name and row["train"] is train]
        counts = collections.Counter(row["outcome"] for row in own if row["sample"] >= 0)
        n_right = sum(counts[kind.name] for kind in GOOD)
        n_cases = counts.total() - sum(counts[kind.name] for kind in NO_CASE)
        bad = ", ".join(f"{counts[kind.name]} {kind.name.lower()}" for kind in (Outcome.REFUSED, *BAD))
        share = f" ({n_right / n_cases:.2%})" if n_cases else ""
        lines.append(
            f"{_step(door, train)}: {n_cases} cases, {n_right} right{share}"
            f" ({counts['EAGER']} of them in eager), {bad}"
        )
    return "\n".join(lines)


def all_jobs(seed: int) -> list[Job]:
    """Each op in each dtype, in an order that any share of is like the whole."""
    jobs = [(name, dtype) for dtype in DTYPES for name in op_names(dtype=getattr(torch, dtype))]
    random.Random(seed).shuffle(jobs)
    return jobs


def main() -> int:
    """Sweeps and prints the table; 1 if something is wrong or crashed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ops", nargs="*", help="names as in the database; by default all")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("-j", type=int, default=1, help="processes at once")
    parser.add_argument("--share", default="1/1", help="i/n: every n-th op and dtype from the i-th on")
    parser.add_argument("--seed", type=int, default=0, help="draws the order and, with --most, the samples")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    parser.add_argument("--most", type=int, help="samples of an op in a dtype")
    steps = [_step(door, train) for door in Door for train in (True, False)]
    parser.add_argument("--only", choices=steps, default="", help="one door and step")
    parser.add_argument("--plain", action="store_true", help="without black and clang-format")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one sample")
    parser.add_argument("--book", type=Path, default=Path("build/samples.jsonl"))
    parser.add_argument("--again", action="store_true", help="what was wrong or crashed once more")
    parser.add_argument("--table", action="store_true", help="only what the book tells")
    parser.add_argument(
        "--refusals", type=Path, help="write which ops are refused, and why: refused_ops.json"
    )
    options = parser.parse_args()
    deadline = time.monotonic() + options.budget
    settings = Settings(options.most, options.seed, options.only, options.plain, options.limit)
    book = Book(options.book, settings.drawn)
    if options.again:
        bad = {key for key, row in book.rows.items() if row["outcome"] in {kind.name for kind in BAD}}
        book.finished -= {key[:2] for key in bad}
        for key in bad:
            book.forget(key)
    if not options.table:
        first, step = map(int, options.share.split("/"))
        wanted = options.dtypes.split(",")
        jobs = [
            (op, dtype)
            for op, dtype in all_jobs(options.seed)
            if dtype in wanted and op in (options.ops or [op])
        ]
        book.begin(len(jobs))
        with tempfile.TemporaryDirectory() as kernels:
            left = sweep(
                jobs[first - 1 :: step],
                book,
                n_processes=options.j,
                settings=dataclasses.replace(settings, kernels=kernels),
                deadline=deadline,
            )
        print(
            f"{left} ops left of {len(jobs[first - 1 :: step])}, each in one dtype"
            if left
            else "nothing is left"
        )
    print(table(book.rows.values()))
    if options.refusals:
        refusals.write(book.rows.values(), book.runs, options.refusals)
    print(f"\n{brief(book.rows.values())}")
    return int(any(row["outcome"] in {kind.name for kind in BAD} for row in book.rows.values()))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
