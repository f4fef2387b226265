"""Samples judged in one program: the verdicts are those of samples judged one by one, whatever is wrong with which."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from longhand.errors import CaptureError
from tests.autograd import op_sweep, sample_groups
from tests.autograd.eager_runs import EagerRuns
from tests.autograd.every_sample import odd_groups, raised_groups
from tests.autograd.op_programs import Program, every_program
from tests.autograd.op_sweep import Case, Door, Outcome
from tests.autograd.sample_book import Book, Key
from tests.autograd.sample_groups import Group, GroupVerdict, Judges, judged_together, settle
from tests.autograd.sample_work import Settings
from tests.autograd.sample_workers import sweep

OP, DTYPE = "softmax", "float32"
Through = Callable[[Case, Path, list[str]], Callable[..., Any]]


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def numbers_in(program: Program) -> set[int]:
    """The samples that a program holds."""
    return {one.number for one in program.members} if isinstance(program, Group) else {program.number}


def through_faults(faults: dict[int, str]) -> Through:
    """A door that is eager itself, but for some samples."""

    def through(case: Case, folder: Path, reasons: list[str]) -> Callable[..., Any]:
        here = {faults[number] for number in numbers_in(case.program) if number in faults}
        if "crash" in here:
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in here:
            time.sleep(60)
        if "refused" in here:
            raise CaptureError("it cannot be captured")
        if "eager" in here:
            reasons.append("it runs in eager")

        def run(*given: torch.Tensor) -> Any:
            results = case.program.function()(*given)
            if not isinstance(case.program, Group):
                return off(results, case.program.number)
            pairs = zip(results, case.program.members, strict=True)
            return [off(result, member.number) for result, member in pairs]

        return run

    def off(result: Any, number: int) -> Any:
        factor = 1.1 if faults.get(number) == "wrong" else 1.0
        return [one * factor for one in result] if isinstance(result, list) else result * factor

    return through


def swept(path: Path, faults: dict[int, str], monkeypatch: pytest.MonkeyPatch, group: int) -> Book:
    for module in (op_sweep, sample_groups):
        monkeypatch.setattr(module, "through", through_faults(faults))
    book = Book(path, [None, 0])
    settings = Settings(None, 0, only="generate training", group=group, limit=8)
    left = sweep([(OP, DTYPE, 0)], book, n_processes=1, settings=settings, deadline=time.monotonic() + 120)
    assert left == 0
    return book


def outcomes(book: Book) -> dict[Key, tuple[str, str]]:
    return {key: (row["outcome"], row["words"]) for key, row in book.rows.items()}


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ({}, {}),
        ({2: "wrong"}, {2: Outcome.WRONG}),
        ({5: "crash"}, {5: Outcome.CRASH}),
        ({0: "refused", 3: "wrong", 6: "eager"}, {0: Outcome.REFUSED, 3: Outcome.WRONG, 6: Outcome.EAGER}),
        (dict.fromkeys(range(7), "refused"), dict.fromkeys(range(7), Outcome.REFUSED)),
    ],
    ids=["none", "wrong", "crash", "several", "all"],
)
def test_a_fault_is_found_and_named_alone(tmp_path, monkeypatch, faults, expected):
    together = outcomes(swept(tmp_path / "together", faults, monkeypatch, group=12))
    assert {key[2]: Outcome[kind] for key, (kind, _) in together.items() if kind != "RIGHT"} == expected
    assert len(together) == len(list(every_program(OP, getattr(torch, DTYPE))))
    assert together == outcomes(swept(tmp_path / "apart", faults, monkeypatch, group=1))


def test_a_group_that_hangs_is_judged_apart_and_not_tried_again(tmp_path, monkeypatch):
    book = swept(tmp_path / "book", {1: "hang"}, monkeypatch, group=4)
    assert {key[2]: kind for key, (kind, _) in outcomes(book).items() if kind != "RIGHT"} == {1: "CRASH"}
    read = Book(tmp_path / "book", [None, 0])
    assert read.known((OP, DTYPE, 0)) == book.known((OP, DTYPE, 0))
    assert ((0, 1, 2, 3), "GENERATE", True) in read.known((OP, DTYPE, 0)).failed
    assert outcomes(read) == outcomes(book)


def runs_of(count: int) -> list[EagerRuns]:
    return [EagerRuns(one, train=False) for one in list(every_program("add", torch.float32))[:count]]


def test_groups_that_failed_are_halved_at_once_and_told_of_where_each_sample_is_right(tmp_path):
    tried: list[tuple[int, ...]] = []
    failing = {(0, 1, 2, 3), (0, 1)}

    def numbers(runs):
        return tuple(one.program.number for one in runs)

    def together(runs):
        tried.append(numbers(runs))
        return GroupVerdict("not as one" if numbers(runs) in failing else "")

    def alone(one):
        tried.append((one.program.number,))
        return True

    settle(runs_of(4), Judges(together, alone, lambda runs: numbers(runs) == (0, 1, 2, 3)))
    assert tried == [(0, 1), (0,), (1,), (2, 3)]
    book = Book(tmp_path / "book", [None, 0])
    common = {"op": "add", "dtype": "float32", "group": [0, 1], "door": "COMPILE", "train": False}
    book.add(common | {"failed": "not as one"})
    assert not odd_groups(book)
    book.add(common | {"outcome": "RIGHT", "words": ""})
    assert odd_groups(book) == ["- add float32 [0, 1], compile inference: not as one"]


def test_an_error_of_no_words_of_ours_counts_though_each_sample_is_right(tmp_path, monkeypatch):
    def raising(case: Case, folder: Path, reasons: list[str]) -> Callable[..., Any]:
        raise StopIteration if isinstance(case.program, Group) else CaptureError("refused")

    monkeypatch.setattr(sample_groups, "through", raising)
    verdict = judged_together(runs_of(2), Door.GENERATE)
    assert verdict.has_raised and not verdict.is_right
    book = Book(tmp_path / "book", [None, 0])
    common = {"op": "add", "dtype": "float32", "group": [0, 1], "door": "GENERATE", "train": False}
    book.add(common | {"failed": "refused"})
    assert not raised_groups(book)
    book.add(common | {"failed": verdict.words, "raised": True})
    book.add(common | {"outcome": "RIGHT", "words": ""})
    assert [row["failed"] for row in raised_groups(book)] == [verdict.words]


def test_groups_are_not_tried_where_several_failed_and_none_was_right(tmp_path):
    book = Book(tmp_path / "book", [None, 0])
    job, common = ("add", "float32", 0), {"op": "add", "dtype": "float32", "door": "COMPILE", "train": True}
    for number in range(3):
        assert book.known(job).may_be_right_together("COMPILE", train=True)
        book.add(common | {"group": [number, number + 1], "failed": "it runs in eager"})
    assert not book.known(job).may_be_right_together("COMPILE", train=True)
    assert book.known(job).may_be_right_together("COMPILE", train=False)
    book.add(common | {"group": [7, 8], "outcome": "RIGHT", "words": ""})
    assert book.known(job).may_be_right_together("COMPILE", train=True)


@pytest.mark.parametrize("door", list(Door))
def test_a_group_is_generated_compiled_and_compared(hook, tmp_path, monkeypatch, door):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))
    runs = [EagerRuns(one, train=True) for one in list(every_program("mul", torch.float32))[:3]]
    assert judged_together(runs, door) == GroupVerdict()
    wrong = runs[1].program
    expected = runs[1].expected
    monkeypatch.setattr(EagerRuns, "expected", property(lambda self: expected | {"gradient 1": None}))
    assert wrong.number in judged_together(runs[1:2], door).named


def test_members_keep_their_numbers_and_share_no_memory():
    members = list(every_program("add", torch.float32))[:4]
    group = Group.of(members)
    assert group.text.count("op(") == 4
    assert [one.shape for one in group.arguments(train=False)] == [
        one.shape for member in members for one in member.arguments(train=False)
    ]
    given = [one for one in group.arguments(train=True) if one.numel()]
    assert len({one.untyped_storage().data_ptr() for one in given}) == len(given)
