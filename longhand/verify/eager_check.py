"""A whole unit against its original: one call, and of a unit that trains one step."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from longhand.emit.unit.lock_file import read_lock
from longhand.factory import Call
from longhand.loading import bound
from longhand.verify.comparison import EAGER_FACTOR, Comparison, compare, distance, is_equal, tensors_by_name
from longhand.verify.convolutions import without_tf32
from longhand.verify.exact_results import exact_results
from longhand.verify.forms import Watched, other_form
from longhand.verify.original import SEED, copied, in_other_bits, told_apart
from longhand.verify.roundings import OtherRoundings
from longhand.verify.training_check import compare_training, step_of
from longhand.verify.varied_sizes import SizeRules, Sizes, in_words, resized_call
from longhand.verify.worker_progress import Tell, no_progress

_DRAWS = 16  # of last bits, at most


@without_tf32()
def compare_whole(folder: Path, unit: object, call: Call) -> tuple[Comparison, ...]:
    """A unit against its original: one call, and of a unit that trains one step."""
    call = told_apart(call)
    compared = compare_training if _trains(folder) else compare_with_eager
    return compared(unit, call)


def compare_within_noise(folder: Path, unit: object, call: Call) -> tuple[Comparison, ...]:
    """The same; where a result is farther off than eager is, it is held against what its conditions allow.

    Eager's own error is one draw: of a sum of large parts it may be nothing, by chance. What each rounding does to the
    result is as large as what it sums: where all that the call is given moves by a bit, eager moves by that.
    """
    rows = compare_whole(folder, unit, call)
    if all(row.is_right or row.note for row in rows):
        return rows
    off = {row.name: row.error / EAGER_FACTOR for row in rows if not (row.is_right or row.note)}
    noise = eager_noise(folder, call, off)
    return tuple(_within(row, EAGER_FACTOR * noise.get(row.name, 0.0)) for row in rows)


def _within(row: Comparison, bound: float) -> Comparison:
    """A row whose bound is no less."""
    if row.note or not row.bound < bound < math.inf:
        return row
    return dataclasses.replace(row, bound=bound, mismatch=row.mismatch if row.error > bound else "")


@without_tf32()
def eager_noise(folder: Path, call: Call, off: Mapping[str, float]) -> dict[str, float]:
    """How far eager itself moves, in each tensor that `compare_whole` names, where all that it is given moves by a bit.

    Or, in every second draw, all that its operations give: of two equal values' difference eager's error is nothing.

    Sums that cancel, and gradients that are nothing but rounding, move by more than one call of eager happens to err.
    One number that is nothing but rounding often stays where it is in a draw: it moves by the most of several.

    Args:
        folder: The unit's.
        call: What both are given.
        off: By how much at least a tensor must move, for its error to be explained. No more is drawn once all do.
    """
    call = told_apart(call)
    run = step_of if _trains(folder) else _results
    plain = run(call.model, copied(call))
    noise: dict[str, float] = {}
    for draw in range(_DRAWS):
        other = _moved(run, call, draw)
        for name, tensor in plain.items():
            if name in other and other[name].shape == tensor.shape:
                noise[name] = max(noise.get(name, 0.0), distance(other[name], tensor))
        if all(noise.get(name, 0.0) >= error for name, error in off.items()):
            break
    return noise


def _moved(
    run: Callable[..., Mapping[str, torch.Tensor]], call: Call, draw: int
) -> Mapping[str, torch.Tensor]:
    """What a draw of other bits gives: of what is given, or of what operations give."""
    if draw % 2 == 0:
        moved = in_other_bits(call, draw)
        return run(moved.model, moved)
    with contextlib.suppress(Exception):  # some operations run under no mode
        same = copied(call)
        with OtherRoundings(SEED + draw):
            return run(same.model, same)
    return {}


def _trains(folder: Path) -> bool:
    return bool(read_lock(folder).get("train"))


def compare_at_sizes(
    folder: Path, unit: object, call: Call, sets: Sequence[Sizes], tell: Tell = no_progress
) -> tuple[Comparison, ...]:
    """The same at each set of sizes; what the unit cannot do and eager can is wrong."""
    rules = SizeRules.of(read_lock(folder))
    comparisons: list[Comparison] = []
    for place, sizes in enumerate(sets):
        words = in_words(sizes)
        tell(f"the model at {words}", place, len(sets))
        one = resized_call(rules, call, sizes)
        try:
            rows: tuple[Comparison, ...] = compare_within_noise(folder, unit, one)
        except Exception as error:
            if not _runs(one):
                continue  # the model's own limit
            note = f"does not run: {type(error).__name__}: {' '.join(str(error).split())}"
            rows = (Comparison("result", math.inf, 0.0, 0.0, note),)
        comparisons += [dataclasses.replace(row, name=f"{row.name} at {words}") for row in rows]
    return tuple(comparisons)


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
    eager_call, our_call = copied(call), copied(call)
    before = dict(_after_the_call(call))
    original, generated = Watched(eager_call.model), Watched(bound(unit, our_call.model))
    eager = _results(original, eager_call)
    ours = _results(generated, our_call)
    if other := other_form(generated, original):
        return (other,)
    if len(ours) != len(eager):
        note = f"expected {len(eager) - len(before)} tensors, got {len(ours) - len(before)}"
        return (Comparison("result", math.inf, 0.0, 0.0, note),)
    exact = exact_results(call, lambda one: _results(one.model, one), eager)
    return tuple(
        compare(name, mine, eager[name], exact[name])
        for name, mine in zip(eager, ours.values(), strict=True)
        if name not in before or not _is_left(before[name], mine, eager[name])
    )


def _results(model: Callable[..., Any], call: Call) -> dict[str, torch.Tensor]:
    """What a call returns, and what its arguments hold then, by name."""
    torch.manual_seed(SEED)
    with torch.no_grad():
        returned = model(*call.args, **call.kwargs)
    return dict(tensors_by_name("result", returned) + _after_the_call(call))


def _after_the_call(call: Call) -> list[tuple[str, torch.Tensor]]:
    given = tensors_by_name("argument", (call.args, call.kwargs))
    return [(f"{name} after the call", tensor) for name, tensor in given]


def _is_left(before: torch.Tensor, ours: torch.Tensor, eager: torch.Tensor) -> bool:
    return is_equal(before, ours) and is_equal(before, eager)
