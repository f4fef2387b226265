"""`longhand verify`: a unit against the eager original, and each of its kernels against its reference."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path

import torch

from longhand.comparison import Comparison, compare, is_equal, tensors_by_name
from longhand.factory import Call
from longhand.loading import bound, load
from longhand.original import copied, in_float64, original_of


@dataclasses.dataclass(frozen=True)
class Verification:
    """What was compared.

    Attributes:
        whole: The unit's results, and what it wrote into its inputs, against eager and float64.
        kernels: What check.py printed: a line for each kernel.
        kernels_are_right: Whether check.py found every kernel to be right.
    """

    whole: tuple[Comparison, ...]
    kernels: str
    kernels_are_right: bool

    @property
    def is_right(self) -> bool:
        """Whether all passed."""
        return self.kernels_are_right and all(comparison.is_right for comparison in self.whole)


def verify(folder: Path, factory: str | None = None) -> Verification:
    """Runs the unit, its original and its own checks.

    Raises:
        UnitError: There is no such unit, or it cannot run here.
        FactoryError: The original cannot be made again.
        ToolError: The C++ compiler is missing or refuses a kernel.
    """
    call = original_of(folder, factory)
    whole = compare_with_eager(load(folder), call)
    printed, passed = run_check(folder)
    return Verification(whole, printed, passed)


def compare_with_eager(unit: object, call: Call) -> tuple[Comparison, ...]:
    """Every tensor that the call returns or changes: the unit's against eager's and against float64."""
    eager_call, exact_call, our_call = copied(call), in_float64(call), copied(call)
    our_model = bound(unit, our_call.model)
    with torch.no_grad():
        eager = eager_call.model(*eager_call.args, **eager_call.kwargs)
        exact = exact_call.model(*exact_call.args, **exact_call.kwargs)
        ours = our_model(*our_call.args, **our_call.kwargs)
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


def run_check(folder: Path) -> tuple[str, bool]:
    """The unit's own check.py, in a process of its own as anyone would run it."""
    environment = dict(os.environ)
    parent = str(folder.resolve().parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (parent, environment.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", f"{folder.resolve().name}.check"],
        env=environment,
        capture_output=True,
        text=True,
    )
    return (done.stdout + done.stderr).strip(), done.returncode == 0
