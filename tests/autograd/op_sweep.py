"""What becomes of each op of PyTorch's operator database, in training and in inference, compiled and generated.

``python -m tests.autograd.op_sweep`` takes all of them (an hour on one core); words after it are names of ops;
``--dtype int64`` takes samples of another dtype, ``--part 2/8`` the second of eight ops, the tenth, ... Nothing may be
wrong: a program is right in generated code, or runs in eager with a reason, or is refused with an error that
says why.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import enum
import functools
import json
import logging
import multiprocessing
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import longhand
from longhand.capture.bytecode.entry.entries import Event, EventKind
from longhand.compiled.from_bytecode import captured
from longhand.errors import CaptureError
from longhand.verify.comparison import is_equal
from tests.autograd.eager_runs import EagerRuns
from tests.autograd.op_programs import Form, Program, op_names, programs, seen
from tests.autograd.sample_judge import drawn_error, judge, noise_of_roundings, plain

LIMIT = 120.0  # seconds for an op
SHORT = ("bfloat16", "half")  # they compute in 16 bits
UNINITIALIZED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


_INTERNAL = re.compile(
    r"(\w+(Error|Exception)|UnsupportedLowering): "
)  # the reason is an error that nobody wrote for people


class Door(enum.Enum):
    """How a program becomes a unit."""

    COMPILE = "compile"
    GENERATE = "generate"


class Outcome(enum.Enum):
    """What became of a program."""

    RIGHT = "right in generated code"
    NEAR = "right in generated code to five digits, where eager happens to be closer"
    EAGER = "ran in eager, with a reason"
    REFUSED = "refused, with a reason"
    RAISES = "eager raises, and so do we"
    MORE = "eager lacks the derivative, and we give it"
    NOTHING = "eager has nothing to differentiate, and we say so"
    WRONG = "wrong"
    CRASH = "crash"


BAD = (Outcome.WRONG, Outcome.CRASH)


@dataclasses.dataclass(frozen=True)
class Case:
    """One program through one door."""

    program: Program
    door: Door
    train: bool

    def __str__(self) -> str:
        step = "training" if self.train else "inference"
        number, form = self.program.number, self.program.form.value
        return f"{self.program.name} (sample {number}, {form}, {self.door.value}, {step})"


# For each op: (form, door, whether it trains). Equal forms take other samples.
PLAN = (
    (Form.BETWEEN, Door.COMPILE, True),
    (Form.ALONE, Door.COMPILE, True),
    (Form.IN_PLACE, Door.COMPILE, True),
    (Form.BETWEEN, Door.GENERATE, True),
    (Form.BETWEEN, Door.COMPILE, False),
    (Form.ALONE, Door.GENERATE, False),
    (Form.IN_PLACE, Door.GENERATE, False),
)


def cases(name: str, seed: int, dtype: torch.dtype = torch.float32) -> Iterator[Case]:
    """The cases of an op."""
    made = list(programs(name, [form for form, _, _ in PLAN], seed, dtype))
    for form, door, train in PLAN:
        for place, program in enumerate(made):
            if program.form is form:
                carries = any(tensor.requires_grad for tensor in program.tensors)
                if carries or not train:
                    yield Case(made.pop(place), door, train)
                break


def outcome(case: Case, runs: EagerRuns | None = None) -> tuple[Outcome, str]:
    """What becomes of a case, and why; with eager's runs, where another door has asked for them."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        with torch.set_grad_enabled(case.train):
            return _outcome(case, Path(folder), runs or EagerRuns(case.program, train=case.train))


def _outcome(case: Case, folder: Path, runs: EagerRuns) -> tuple[Outcome, str]:
    program, train = case.program, case.train
    raised, expected = runs.raised, runs.expected
    reasons: list[str] = []
    try:
        function = through(case, folder, reasons)
        found = seen(function, program.arguments(train=train))
    except Exception as error:
        if raised is not None:
            return Outcome.RAISES, str(raised)
        words = f"{type(error).__name__}: {error}"
        is_refused = isinstance(error, CaptureError) and case.door is Door.GENERATE
        if is_refused and train and "No result of" in words and _is_constant(expected):
            return Outcome.NOTHING, words
        return (Outcome.REFUSED if is_refused else Outcome.CRASH), words
    if isinstance(raised, NotImplementedError):
        return Outcome.MORE, str(raised)
    if raised is not None:
        return Outcome.WRONG, f"eager raises {type(raised).__name__}: {raised}"
    kind, off = difference(case, found, runs)
    if internal := next(filter(_INTERNAL.match, reasons), ""):
        return Outcome.CRASH, internal
    if kind is Outcome.RIGHT and reasons:
        return Outcome.EAGER, reasons[0]
    return kind, off


def through(case: Case, folder: Path, reasons: list[str]) -> Callable[..., Any]:
    """The program compiled or generated; why it runs in eager goes into `reasons`, some only when it is called."""
    function = case.program.function()
    if case.door is Door.GENERATE:
        arguments = tuple(case.program.arguments(train=case.train))
        is_compared = case.program.name not in UNINITIALIZED  # generate compares what the unit gives, too
        longhand.generate(function, arguments, out=folder / "unit", train=case.train, run=is_compared)
        unit: Callable[..., Any] = longhand.load(folder / "unit")
        return unit

    def listen(event: Event) -> None:
        if event.kind in (EventKind.BREAK, EventKind.SKIP):
            reasons.append(event.text)

    compiled: Callable[..., Any] = captured(
        function,
        report=lambda report: reasons.append(report.reason) if report.reason else None,
        listener=listen,
    )
    return compiled


def difference(case: Case, found: dict[str, Any], runs: EagerRuns) -> tuple[Outcome, str]:
    """Whether all is as in eager, and what is not, in words."""
    expected, near = runs.expected, ""
    for name in dict.fromkeys((*expected, *found)):
        wanted, got = expected.get(name), found.get(name)
        if not isinstance(wanted, torch.Tensor) or not isinstance(got, torch.Tensor):
            is_tensor = isinstance(wanted, torch.Tensor) or isinstance(got, torch.Tensor)
            if is_tensor and _is_nothing(wanted) and _is_nothing(got):
                near = near or f"{name}: {_short(got)} instead of {_short(wanted)}, which is zero"
                continue
            if wanted is not got and (is_tensor or wanted != got):
                return Outcome.WRONG, f"{name}: {_short(got)} instead of {_short(wanted)}"
            continue
        if (got.dtype, got.shape, got.layout) != (wanted.dtype, wanted.shape, wanted.layout):
            return (
                Outcome.WRONG,
                f"{name}: {got.dtype} {_short(got)} instead of {wanted.dtype} {_short(wanted)}",
            )
        if case.program.name in UNINITIALIZED or not is_equal(plain(wanted), plain(runs.again[name])):
            continue  # memory that nothing was written into
        is_short = wanted.dtype.itemsize == 2 or case.program.name in SHORT
        draws = functools.partial(drawn_error, case.program, name, train=case.train)
        moved = functools.partial(noise_of_roundings, case.program, name, train=case.train)
        values = (plain(got), plain(wanted), runs.exact.get(name))
        verdict = judge(name, *values, is_short=is_short, error_of_eager=draws, moved_by_roundings=moved)
        if not verdict.is_right:
            return Outcome.WRONG, verdict.words
        near = near or verdict.words
    return (Outcome.NEAR if near else Outcome.RIGHT), near


def _is_nothing(gradient: Any) -> bool:
    """Whether it is None, or all zero: an op without a derivative has either."""
    return gradient is None or (isinstance(gradient, torch.Tensor) and not plain(gradient).any())


def _is_constant(seen_in_eager: dict[str, Any]) -> bool:
    """Whether eager finds no gradient at all, or zeros only: of ``fill``, of ``x ** 0``."""
    names = [name for name in seen_in_eager if name.startswith("gradient ")]
    return all(_is_nothing(seen_in_eager[name]) for name in names)


def _short(value: Any) -> str:
    return f"a tensor {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def _work(connection: Any, seed: int, dtype: torch.dtype) -> None:
    """A process of its own: takes names of ops, answers with rows."""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    while (name := connection.recv()) is not None:
        rows = []
        try:
            for case in cases(name, seed, dtype):
                connection.send(("starts", str(case)))
                torch.compiler.reset()
                longhand.reset()
                kind, words = outcome(case)
                rows.append(_row(case, kind, words))
        except Exception as error:
            rows.append({"op": name, "outcome": "CRASH", "words": f"sweep: {type(error).__name__}: {error}"})
        connection.send(("ends", rows))


def _row(case: Case, kind: Outcome, words: str) -> dict[str, Any]:
    return {
        "op": case.program.name,
        "case": str(case),
        "door": case.door.name,
        "train": case.train,
        "outcome": kind.name,
        "words": words[:2000],
        "text": case.program.text if kind in BAD else "",
    }


class Worker:
    """A process that is replaced where it dies or takes too long."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self._drawn = (seed, dtype)
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._ours, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_work, args=(theirs, *self._drawn), daemon=True)
        self._process.start()
        theirs.close()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of an op."""
        self._ours.send(name)
        case, words = name, f"no answer within {LIMIT:.0f} seconds"
        try:
            while self._ours.poll(LIMIT):
                kind, content = self._ours.recv()
                if kind == "ends":
                    rows: list[dict[str, Any]] = content
                    return rows
                case = content
        except EOFError:
            words = "the process died"
        self._process.kill()
        self._process.join()
        self._start()
        return [{"op": name, "case": case, "outcome": "CRASH", "words": words, "text": ""}]

    def end(self) -> None:
        """No more ops."""
        self._ours.send(None)
        self._process.join()


def main() -> None:
    """Sweeps, writes a row for each case, prints the counts and what is bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", help="names as in the database; by default all")
    parser.add_argument("--out", type=Path, default=Path("build/op_sweep.jsonl"))
    parser.add_argument("--seed", type=int, default=0, help="draws the samples")
    parser.add_argument("--dtype", default="float32", help="of the samples, as torch calls it")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth op, from the Kth on")
    options = parser.parse_args()
    dtype: torch.dtype = getattr(torch, options.dtype)
    first, step = map(int, options.part.split("/"))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    worker = Worker(options.seed, dtype)
    counts: collections.Counter[str] = collections.Counter()
    with options.out.open("w") as out:
        for name in options.ops or op_names(dtype=dtype)[first - 1 :: step]:
            for row in worker.rows(name):
                counts[row["outcome"]] += 1
                out.write(json.dumps(row) + "\n")
                if row["outcome"] in ("WRONG", "CRASH"):
                    print(
                        f"{row['outcome']}: {row.get('case', name)}: {row['words']}\n{row.get('text', '')}",
                        flush=True,
                    )
            out.flush()
    worker.end()
    for kind in Outcome:
        print(f"{counts[kind.name]:6}  {kind.value}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
