"""What the commands report, as JSON. Numbers that are none (an error where NaN came) are null."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from longhand.compiled.parts import Parts
from longhand.staleness.edit_report import FileEdit, KernelLine
from longhand.telling.explanation import Explanation
from longhand.telling.summary import Summary
from longhand.verify.verification import Verification


def made_as_json(made: Summary | Parts) -> dict[str, Any]:
    """What `generate` wrote."""
    if isinstance(made, Parts):
        return {
            "unit": str(made.out),
            "graphs": [
                {"ops": one.n_ops, "folder": str(one.folder) if one.folder else None, "reason": one.reason}
                for one in made.graphs
            ],
            "breaks": [{"reason": one.reason, "where": one.where, "hint": one.hint} for one in made.breaks],
        }
    return {
        "unit": str(made.out),
        "name": made.name,
        "kernels": made.n_kernels,
        "launches": made.n_launches,
        "library_calls": [
            {"target": one.target, "reason": one.reason, "count": one.count} for one in made.library_calls
        ],
        "in_torch": list(made.in_torch),
        "trial": made.trial,
        "seconds": dict(made.timings.stages),
        "files": {
            one.path: {"outcome": one.outcome.value, "detail": one.detail, "problem": one.problem}
            for one in made.merge.files
        },
        "written": made.merge.is_good,
    }


def explanation_as_json(explanation: Explanation) -> dict[str, Any]:
    """What `explain` found."""
    return {
        "graphs": [
            {
                "ops": one.n_ops,
                "folder": str(one.folder) if one.folder else None,
                "kernels": one.summary.n_kernels if one.summary else None,
                "reason": one.reason,
            }
            for one in explanation.graphs
        ],
        "breaks": [
            {"reason": one.reason, "where": one.where, "statement": one.statement, "hint": one.hint}
            for one in explanation.breaks
        ],
        "guards": [list(guards) for guards in explanation.guards],
    }


def verification_as_json(folder: Path, result: Verification) -> dict[str, Any]:
    """What `verify` compared."""
    return {
        "unit": str(folder),
        "right": result.is_right,
        "stale": result.stale,
        "interpreted": result.is_interpreted,
        "part": result.part,
        "sizes": list(result.sizes),
        "whole": [
            {
                "name": one.name,
                "right": one.is_right,
                "error": _number(one.error),
                "eager_error": _number(one.eager_error),
                "allowed": _number(one.bound),
                "note": one.note,
                "mismatch": one.mismatch,
                "remark": one.remark,
            }
            for one in result.whole
        ],
        "kernels": [
            {
                "name": one.name,
                "at": one.at,
                "called_with": [_number(size) for size in one.sizes],
                "right": one.is_right,
                "error": _number(one.error),
                "allowed": _number(one.allowed),
                "mismatch": one.mismatch,
            }
            for one in result.kernels
        ],
    }


def diff_as_json(folder: Path, edits: Iterable[FileEdit], lines: Iterable[KernelLine]) -> dict[str, Any]:
    """What `diff` tells of one unit."""
    return {
        "unit": str(folder),
        "edits": {
            one.path: {"added": one.n_added, "removed": one.n_removed, "lines": list(one.lines)}
            for one in edits
        },
        "kernels": [
            {"name": one.name, "change": one.change, "numerics": one.numerics, "wrong": one.is_wrong}
            for one in lines
        ],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
