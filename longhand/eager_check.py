"""A whole unit against its original: one call, and of a unit that trains one step."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from longhand.comparison import Comparison, compare, is_equal, tensors_by_name
from longhand.factory import Call
from longhand.loading import bound
from longhand.original import SEED, copied, in_float64, read_lock, told_apart
from longhand.training_check import compare_training


def compare_whole(folder: Path, unit: object, call: Call) -> tuple[Comparison, ...]:
    """A unit against its original: one call, and of a unit that trains one step."""
    call = told_apart(call)
    compared = compare_training if read_lock(folder).get("train") else compare_with_eager
    return compared(unit, call)


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
