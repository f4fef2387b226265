"""Which ops are refused or run in eager, and why: what a sweep of samples tells, for docs/ops.md.

``python -m tests.autograd.refusals benchmarks/refused_ops.json build/samples.jsonl --only "generate inference"`` runs
every listed sample of a door and step again, and those that the books of sweeps call refused; what is right by now
goes, unless one of a few other samples of that op and dtype is not.
"""

from __future__ import annotations

import argparse
import collections
import json
import logging
import os
import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tests.autograd.op_programs import every_program
from tests.autograd.op_sweep import BAD, Case, Door, Outcome, outcome
from tests.autograd.sample_book import lines_of

_OTHERS = 6  # samples that are looked at where the listed one is right by now

# What the messages say, in the words of the page. The first that fits.
REASONS = (
    (
        r"depends? on (the )?data|only known when it runs|data-dependent|without data|Pending unbacked"
        r"|\b(equal|allclose|item|nonzero_static) (is called|leaves)|local_scalar_dense",
        "a size, a place or a number depends on data",
    ),
    (r"No result of .* requires grad", "no result has a derivative, so that there is nothing to train"),
    (r"shares memory with", "in training a result that is a view of an argument (return a clone of it)"),
    (r"returns a view of .* cannot take", "a view of an argument that generated code cannot take"),
    (r"changes which memory|resize_(as_)? leaves", "it changes which memory a tensor uses"),
    (
        r"cannot be differentiated|has no derivative",
        "its derivative is one that only PyTorch's own autograd has",
    ),
    (r"[Ss]parse|layout", "sparse tensors"),
    (r"its derivative is zero everywhere", "its derivative is zero everywhere"),
    (
        r"cannot be rewritten|has no overload without out=",
        "an overload that capture cannot write without its side effects",
    ),
    (r"custom autograd\.Function|autograd\.Function", "it is a custom autograd.Function"),
    (r"does not know|with a obj value", "Python that capture does not read (Dynamo may)"),
    (r"[Qq]uantiz", "quantized tensors"),
    (r"returns (no tensor|a Size)|no plain container|not a known type", "its result is no tensor"),
)


def reason_of(words: str) -> str:
    """The kind of reason that a message gives; the message itself, without names and numbers, where none is known."""
    for pattern, reason in REASONS:
        if re.search(pattern, words):
            return reason
    first = words.strip().splitlines()[0] if words.strip() else "no reason"
    return re.sub(r"\d+", "N", re.sub(r"^CaptureError: |(\S*[/<])?\S*:\d+: ", "", first))[:160]


def refusals(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, str]]]:
    """By door and step, then by reason: the ops, each with a dtype and a number of a sample that shows it."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        if row["outcome"] in (Outcome.REFUSED.name, Outcome.EAGER.name):
            ops = found.setdefault(mode_of(row), {}).setdefault(reason_of(row["words"]), {})
            ops.setdefault(row["op"], f"{row['dtype']} {row['sample']}")
    return {
        mode: {reason: dict(sorted(ops.items())) for reason, ops in sorted(reasons.items())}
        for mode, reasons in sorted(found.items())
    }


def write(
    rows: Iterable[Mapping[str, Any]],
    runs: Sequence[Mapping[str, Any]],
    path: Path,
    *,
    all_samples: int | None = None,
) -> None:
    """Keeps what the rows tell, for ``python -m benchmarks.op_table``.

    Args:
        rows: Of the books.
        runs: What they were found with.
        path: The file.
        all_samples: How many there are in the database, if each of them was run.
    """
    rows = [row for row in rows if row["sample"] >= 0]
    kept = {
        "runs": [dict(run) for run in runs],
        "pairs": len({(row["op"], row["dtype"]) for row in rows}),
        "ops": len({row["op"] for row in rows}),
        "cases": len(rows),
        "all samples": all_samples,
        "counts": counts(rows),
        "bad": sorted({row["op"] for row in rows if row["outcome"] in {kind.name for kind in BAD}}),
        "dtypes": sorted({row["dtype"] for row in rows}),
        "refused": refusals(rows),
    }
    path.write_text(json.dumps(kept, indent=1) + "\n")


def mode_of(row: Mapping[str, Any]) -> str:
    """A row's door and step: ``generate, training``."""
    return f"{row['door'].lower()}, {'training' if row['train'] else 'inference'}"


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """How often each outcome was, by door and step."""
    found: dict[str, collections.Counter[str]] = {}
    for row in rows:
        found.setdefault(mode_of(row), collections.Counter())[row["outcome"]] += 1
    return {mode: dict(sorted(own.items())) for mode, own in sorted(found.items())}


def again(
    kept: Mapping[str, Any], books: Iterable[Path], only: str, deadline: float
) -> tuple[dict[str, Any], list[str]]:
    """What is kept, with the samples of one door and step run again; and what was run, in words.

    Args:
        kept: As `write` keeps it.
        books: Of sweeps: what they call refused is run, too.
        only: ``generate, inference``.
        deadline: By time.monotonic(): what was not run until then stays as it is.
    """
    listed = {op: shown for ops in kept["refused"].get(only, {}).values() for op, shown in ops.items()}
    reasons = {op: reason for reason, ops in kept["refused"].get(only, {}).items() for op in ops}
    for row in _refused_rows(books, only):
        listed.setdefault(row["op"], f"{row['dtype']} {row['sample']}")
    found: dict[str, dict[str, str]] = {}
    bad, told = set(kept["bad"]), []
    for op, shown in sorted(listed.items()):
        if time.monotonic() > deadline:
            if op in reasons:
                found.setdefault(reasons[op], {})[op] = shown
                told.append(f"{op} {shown}: not run")
            continue
        for number, kind, words in _outcomes(op, shown, only):
            told.append(f"{op} {shown.split()[0]} {number}: {kind.name} {words[:120]}")
            print(told[-1], flush=True)
            if kind in BAD:
                bad.add(op)
            if kind in (Outcome.REFUSED, Outcome.EAGER):
                found.setdefault(reason_of(words), {})[op] = f"{shown.split()[0]} {number}"
                break
    refused = {**kept["refused"], only: {reason: found[reason] for reason in sorted(found)}}
    return {**kept, "bad": sorted(bad), "refused": refused}, told


def _refused_rows(books: Iterable[Path], only: str) -> Iterator[Mapping[str, Any]]:
    for book in books:
        for row in lines_of(book):
            if (
                "outcome" in row
                and mode_of(row) == only
                and row["outcome"] in (Outcome.REFUSED.name, Outcome.EAGER.name)
            ):
                yield row


def _outcomes(op: str, shown: str, only: str) -> Iterator[tuple[int, Outcome, str]]:
    """What becomes of the sample that is listed, then of a few others of that op and dtype."""
    dtype, listed = shown.split()
    door, step = only.split(", ")
    programs = {one.number: one for one in every_program(op, getattr(torch, dtype))}
    others = random.Random(op).sample(sorted(programs), min(_OTHERS, len(programs)))
    for number in dict.fromkeys([int(listed), *others]):
        torch.compiler.reset()
        case = Case(programs[number], Door[door.upper()], step == "training")
        yield number, *outcome(case)


def main() -> None:
    """Runs the samples, and rewrites the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("books", type=Path, nargs="*")
    parser.add_argument("--only", required=True, help='a door and step: "generate, inference"')
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    deadline = time.monotonic() + options.budget
    kept, told = again(json.loads(options.file.read_text()), options.books, options.only, deadline)
    options.file.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{len(told)} samples")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
