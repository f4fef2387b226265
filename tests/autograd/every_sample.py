"""Every op of PyTorch's operator database, in every dtype that it takes on the CPU, on every sample.

Each is generated and compiled: in inference and, where there are gradients, in training, with values and gradients
compared. ``python -m tests.autograd.every_sample -j 16 --quick --book build/samples.jsonl`` goes on where the book
ends, and can be ended at any moment; ``--budget 480`` ends it after eight minutes, with the summary of the book.
Several samples of an op are judged in one program (sample_groups.py); ``--group 1`` judges each in its own.
``--part 2/8`` takes the second of eight parts, each a fair sample of all; ``--earlier BOOK...`` leaves out what other
books know, and tells of them, too; ``--most 2`` draws two samples of each op in each dtype by ``--seed``; ``--only
"generate training"`` takes one door and step; ``--quick`` does once what cases share, and leaves black and clang-format
out; ``--table`` only prints what the books tell. What eager itself refuses, or has nothing to differentiate in, is no
case that counts.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import random
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from tests.autograd import refusals
from tests.autograd.op_programs import op_names
from tests.autograd.op_sweep import BAD, Door, Outcome
from tests.autograd.sample_book import Book, Job
from tests.autograd.sample_work import GROUP, LIMIT, Settings, step_words
from tests.autograd.sample_workers import sweep

DTYPES = (
    *("float32", "bfloat16", "float64", "int64", "bool", "float16", "complex64"),
    *("int32", "uint8", "int8", "int16", "complex128"),
)
GOOD = (Outcome.RIGHT, Outcome.NEAR, Outcome.EAGER, Outcome.MORE)
NO_CASE = (Outcome.RAISES, Outcome.NOTHING)  # there is nothing to be right in


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
            f"{step_words(door, train)}: {n_cases} cases, {n_right} right{share}"
            f" ({counts['EAGER']} of them in eager), {bad}"
        )
    return "\n".join(lines)


def raised_groups(book: Book) -> list[dict[str, Any]]:
    """Groups that ended in an error of no words of ours, while none of their samples does so alone."""
    bad = {kind.name for kind in (*BAD, *NO_CASE)}
    return [row for row in book.failed if row.get("raised") and not bad & set(_outcomes(book, row))]


def _outcomes(book: Book, row: dict[str, Any]) -> list[str | None]:
    """What became of each sample of a group, in smaller ones or alone; None where it is not known."""
    step = (row["door"], row["train"])
    known = [book.rows.get((row["op"], row["dtype"], number, *step)) for number in row["group"]]
    return [one and one["outcome"] for one in known]


def odd_groups(book: Book) -> list[str]:
    """Groups that were not right as one program, while each of their samples is right in smaller ones, in words."""
    lines = []
    for row in book.failed:
        if set(_outcomes(book, row)) == {Outcome.RIGHT.name}:
            words = step_words(Door[row["door"]], row["train"])
            lines.append(f"- {row['op']} {row['dtype']} {row['group']}, {words}: {row['failed']}")
    return lines


def all_jobs(seed: int) -> list[Job]:
    """The first samples of each op in each dtype, in an order that any share of is like the whole."""
    jobs = [(name, dtype, 0) for dtype in DTYPES for name in op_names(dtype=getattr(torch, dtype))]
    random.Random(seed).shuffle(jobs)
    return jobs


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ops", nargs="*", help="names as in the database; by default all")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("-j", type=int, default=1, help="processes at once")
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of n parts of all samples")
    parser.add_argument("--seed", type=int, default=0, help="draws the order and, with --most, the samples")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    parser.add_argument("--most", type=int, help="samples of an op in a dtype")
    steps = [step_words(door, train) for door in Door for train in (True, False)]
    parser.add_argument("--pairs", type=int, help="pairs of an op and a dtype at most, drawn by the seed")
    parser.add_argument("--group", type=int, default=GROUP, help="samples in one program at most")
    parser.add_argument("--only", choices=steps, default="", help="one door and step")
    parser.add_argument("--plain", action="store_true", help="without black and clang-format")
    parser.add_argument("--quick", action="store_true", help="see quick_judging.py; implies --plain")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one sample")
    parser.add_argument("--memory", type=int, default=2500, help="megabytes for one process")
    parser.add_argument("--book", type=Path, default=Path("build/samples.jsonl"))
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="books of earlier runs")
    parser.add_argument("--again", action="store_true", help="what was wrong or crashed once more")
    parser.add_argument("--table", action="store_true", help="only what the books tell")
    parser.add_argument(
        "--refusals", type=Path, help="write which ops are refused, and why: refused_ops.json"
    )
    return parser.parse_args()


def main() -> int:
    """Sweeps and prints the table; 1 if something is wrong or crashed, 2 where nothing could be judged."""
    options = _options()
    if torch.cuda.is_available() and not options.table:
        # Every training case would count as one that eager raises at.
        print("autograd that knows of a GPU cannot be used in forks: run this with CUDA_VISIBLE_DEVICES=")
        return 2
    deadline = time.monotonic() + options.budget
    first, step = map(int, options.part.split("/"))
    settings = Settings(
        options.most,
        options.seed,
        options.only,
        options.plain or options.quick,
        options.quick,
        options.limit,
        options.memory,
        (first, step),
        options.group,
    )
    book = Book(options.book, settings.drawn, options.earlier)
    if options.again:
        for key in [key for key, row in book.rows.items() if row["outcome"] in {kind.name for kind in BAD}]:
            book.forget(key)
    if not options.table:
        wanted = options.dtypes.split(",")
        jobs = [
            job for job in all_jobs(options.seed) if job[1] in wanted and job[0] in (options.ops or [job[0]])
        ]
        jobs = jobs[: options.pairs]
        book.begin(len(jobs))
        left = sweep(jobs, book, n_processes=options.j, settings=settings, deadline=deadline)
        print(f"{left} pieces left" if left else "nothing is left")
    print(table(book.rows.values()))
    print("\n".join(["\n## Not right together, and right apart\n", *odd_groups(book)]))
    if options.refusals:
        all_samples = book.n_samples(all_jobs(options.seed)) if options.most is None else None
        refusals.write(book.rows.values(), book.runs, options.refusals, all_samples=all_samples)
    raised = raised_groups(book)
    print(f"\n{brief(book.rows.values())}\nprograms of several samples that raised: {len(raised)}")
    return int(
        bool(raised) or any(row["outcome"] in {kind.name for kind in BAD} for row in book.rows.values())
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
