"""A whole unit against its original: one call, and of a unit that trains one step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from longhand.comparison import Comparison, compare, is_equal, tensors_by_name
from longhand.emit.lock_file import read_lock
from longhand.factory import Call
from longhand.loading import bound
from longhand.original import SEED, copied, in_float64, told_apart
from longhand.training_check import compare_training
from longhand.varied_sizes import SizeRules, Sizes, in_words, resized_call
from longhand.worker_progress import Tell, no_progress


def compare_whole(folder: Path, unit: object, call: Call) -> tuple[Comparison, ...]:
    """A unit against its original: one call, and of a unit that trains one step."""
    call = told_apart(call)
    compared = compare_training if read_lock(folder).get("train") else compare_with_eager
    return compared(unit, call)


def compare_at_sizes(
    folder: Path, unit: object, call: Call, sets: Sequence[Sizes], tell: Tell = no_progress
) -> tuple[Comparison, ...]:
    """The same at each set of sizes; what the unit cannot do and eager can is wrong."""
    rules = SizeRules.of(read_lock(folder))
    found: list[Comparison] = []
    for place, sizes in enumerate(sets):
        words = in_words(sizes)
        tell(f"the model at {words}", place, len(sets))
        one = resized_call(rules, call, sizes)
        try:
            rows: tuple[Comparison, ...] = compare_whole(folder, unit, one)
        except Exception as error:
            if not _runs(one):
                continue  # the model's own limit
            note = f"does not run: {type(error).__name__}: {' '.join(str(error).split())}"
            rows = (Comparison("result", math.inf, 0.0, 0.0, note),)
        found += [dataclasses.replace(row, name=f"{row.name} at {words}") for row in rows]
    return tuple(found)


def _runs(call: Call) -> bool:
    try:
        with torch.no_grad():
            one = copied(call)
            one.model(*one.args, **one.kwargs)
    except Exception:
        return False
    return True


def compare_with_eager(unit: object, call: Call) -> tuple[Comparison, ...]:
    """Every tensor that the call returns or changes: the unit's against eager's and against float64."""
    eager_call, exact_call, our_call = copied(call), in_float64(call), copied(call)
    our_model = bound(unit, our_call.model)

    def result(model: Callable[..., Any], one: Call) -> Any:
        torch.manual_seed(SEED)
        return model(*one.args, **one.kwargs)

    with torch.no_grad():
        eager = result(eager_call.model, eager_call)
        exact = result(exact_call.model, exact_call)
        ours = result(our_model, our_call)
    named = [tensors_by_name("result", value) for value in (ours, eager, exact)]
    if len(named[0]) != len(named[1]):
        note = f"expected {len(named[1])} tensors, got {len(named[0])}"
        return (Comparison("result", math.inf, 0.0, 0.0, note),)
    found = [
        compare(name, our, their, reference)
        for (name, our), (_, their), (_, reference) in zip(*named, strict=True)
    ]
    given = [
        tensors_by_name("argument", (one.args, one.kwargs))
        for one in (call, our_call, eager_call, exact_call)
    ]
    for (name, before), (_, our), (_, their), (_, reference) in zip(*given, strict=True):
        if not (is_equal(before, our) and is_equal(before, their)):
            found.append(compare(f"{name} after the call", our, their, reference))
    return tuple(found)
