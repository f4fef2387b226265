"""The lock's picture of the plan: whole, bounded, on lines that a diff shows, and checked when it is read."""

import copy
import json
from pathlib import Path

import pytest
import torch

from longhand.emit.unit import picture as section
from longhand.emit.unit.lock_file import checked

GALLERY = Path(__file__).resolve().parents[2] / "generated"
UNITS = sorted(lock.parent for lock in GALLERY.rglob("longhand.lock"))


def lock_of(unit):
    return json.loads((GALLERY / unit / "longhand.lock").read_text())


def flat(steps):
    for step in steps:
        yield from step["steps"] if "repeat" in step else [step]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.relative_to(GALLERY).as_posix())
def test_names_fit_together_and_kernels_are_those_of_the_unit(unit):
    lock = lock_of(unit)
    launched = set()
    for one in lock["picture"]["passes"]:
        made = {name for name, text in one["buffers"].items() if not text.endswith("intermediate")}
        for step in one["steps"]:
            made |= set(step.get("begins", ())) | set(step.get("takes", ()))
            for inner in flat([step]):
                known = {*inner.get("reads", ()), *inner.get("drop", ())}
                assert known <= made, (inner, known - made)
                made |= {*inner.get("writes", ()), *([inner["make"]] if "make" in inner else [])}
                assert {*inner.get("reads", ()), *inner.get("writes", ())} <= set(one["buffers"])
                assert set(inner.get("quotes", ())) <= set(lock["quotes"])
                launched |= {inner["kernel"]} if "kernel" in inner else set()
            made |= set(step.get("ends", ()))
        assert set(one["results"]) <= made
        writes = {name for step in flat(one["steps"]) for name in step.get("writes", ())}
        for refusal in one["refusals"]:
            assert {refusal["first"], refusal["second"]} <= writes
    assert launched == set(lock["kernels"])
    for kernel, words in lock["picture"]["kernels"].items():
        assert kernel in lock["kernels"] and len({quote for found in words.values() for quote in found}) > 1


def test_a_repeat_is_told_once_whatever_the_layers():
    """Twelve layers of the large GPT take no more than the few of the small one."""
    steps = lock_of("gpt_cuda")["picture"]["passes"][0]["steps"]
    (again,) = (step for step in steps if len(step.get("repeat", ())) > 1)
    assert len(again["repeat"]) >= 11 and again["next"]
    assert sum("kernel" in step for step in again["steps"]) == 3


def test_of_too_many_steps_the_first_are_told(monkeypatch, emit):
    def fn(x):
        return (torch.softmax(x, dim=-1) @ x).relu() @ x

    def picture():
        return json.loads(emit(fn, (torch.randn(8, 8),))["longhand.lock"])["picture"]["passes"][0]

    whole = picture()
    monkeypatch.setattr(section, "MOST_STEPS", 1)
    short = picture()
    assert len(whole["steps"]) > 1 == len(short["steps"]) and "left_out" not in whole
    assert short["left_out"]["steps"] == len(whole["steps"]) - 1


def spoiled():
    """(words, lock) with one entry of the picture of another type than longhand writes."""
    lock = lock_of("gpt_train_cpu")

    def one(words, change):
        found = copy.deepcopy(lock)
        change(found["picture"])
        return pytest.param(found, id=words)

    def again(picture):
        return next(step for step in picture["passes"][0]["steps"] if "repeat" in step)

    yield one("no table", lambda picture: picture.update(passes={}))
    yield one("a step that is none", lambda picture: picture["passes"][0]["steps"].append([]))
    yield one("two kinds", lambda picture: picture["passes"][0]["steps"][0].update(kernel="gelu"))
    yield one("a repeat in a repeat", lambda picture: again(picture)["steps"].append(again(picture).copy()))
    yield one("bytes below none", lambda picture: picture["passes"][0]["steps"][2].update(bytes=-1))
    yield one("a kernel that is no name", lambda p: p["passes"][0]["steps"][2].update(kernel="<script>"))
    yield one("a buffer in other words", lambda p: p["passes"][0]["buffers"].update(x="float32 (9**9) x"))
    yield one("no version", lambda picture: picture.update(version="1"))


@pytest.mark.parametrize("lock", list(spoiled()))
def test_another_picture_is_a_damaged_lock(lock):
    with pytest.raises(ValueError, match="picture is not what longhand writes there"):
        checked(lock)


def test_the_picture_as_written_is_right():
    for unit in UNITS:
        checked(lock_of(unit))
