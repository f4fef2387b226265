"""Rows in processes of their own: what raises, dies or hangs costs one row, and is told."""

import os
import signal
import time

from benchmarks.architectures.processes import run_rows
from benchmarks.architectures.rows import Part, Result, Verdict


def _right(row):
    return Result(Verdict.RIGHT, row)


def _raises(row):
    raise KeyError("a\nb")


def _dies(row):
    os.kill(os.getpid(), signal.SIGKILL)


def _hangs(row):
    time.sleep(60)


def _not_made(row):
    return Result(Verdict.NOT_MADE, "no")


def run(jobs, **options):
    found = {}
    settings = {"n_processes": 2, "timeout": 2.0, "deadline": time.monotonic() + 60, **options}
    left = run_rows(jobs, lambda row, part, result: found.setdefault((row, part), result), **settings)
    return found, left


def test_what_goes_wrong_is_told():
    jobs = [
        ("a", {Part.CAPTURE: _right, Part.DYNAMO: _raises, Part.INFERENCE: _right}),
        ("b", {Part.CAPTURE: _dies, Part.DYNAMO: _right}),
        ("c", {Part.CAPTURE: _hangs, Part.DYNAMO: _right}),
        ("d", {Part.CAPTURE: _not_made, Part.DYNAMO: _right}),
    ]
    found, left = run(jobs)
    verdicts = {key: result.verdict for key, result in found.items()}
    assert verdicts == {
        ("a", Part.CAPTURE): Verdict.RIGHT,
        ("a", Part.DYNAMO): Verdict.FAILED,
        ("a", Part.INFERENCE): Verdict.RIGHT,
        ("b", Part.CAPTURE): Verdict.CRASHED,
        ("c", Part.CAPTURE): Verdict.TIMEOUT,
        ("d", Part.CAPTURE): Verdict.NOT_MADE,
    }
    assert "SIGKILL" in found["b", Part.CAPTURE].note and "KeyError" in found["a", Part.DYNAMO].note
    assert left == 0


def test_the_budget_ends_what_runs():
    began = time.monotonic()
    found, left = run(
        [("a", {Part.CAPTURE: _hangs}), ("b", {Part.CAPTURE: _right})], n_processes=1, deadline=began + 1
    )
    assert found == {} and left == 2 and time.monotonic() - began < 20
