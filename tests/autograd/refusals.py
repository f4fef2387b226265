"""Which ops are refused or run in eager, and why: what a sweep of samples tells, for docs/ops.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.autograd.op_sweep import BAD, Outcome

# What the messages say, in the words of the page. The first that fits.
REASONS = (
    (
        r"depends? on (the )?data|only known when it runs|data-dependent|without data|Pending unbacked"
        r"|\b(equal|allclose|item|nonzero_static) (is called|leaves)",
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
    (r"cannot be rewritten", "an overload that capture cannot write without its side effects"),
    (r"custom autograd\.Function|autograd\.Function", "it is a custom autograd.Function"),
    (r"does not know|with a obj value", "Python that capture does not read (Dynamo may)"),
    (r"[Qq]uantiz", "quantized tensors"),
    (r"returns no tensor|no plain container|not a known type", "its result is no tensor"),
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
            mode = f"{row['door'].lower()}, {'training' if row['train'] else 'inference'}"
            ops = found.setdefault(mode, {}).setdefault(reason_of(row["words"]), {})
            ops.setdefault(row["op"], f"{row['dtype']} {row['sample']}")
    return {
        mode: {reason: dict(sorted(ops.items())) for reason, ops in sorted(reasons.items())}
        for mode, reasons in sorted(found.items())
    }


def write(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Keeps what the rows tell, for ``python -m benchmarks.op_table``."""
    rows = [row for row in rows if row["sample"] >= 0]
    kept = {
        "ops": len({row["op"] for row in rows}),
        "cases": len(rows),
        "bad": sorted({row["op"] for row in rows if row["outcome"] in {kind.name for kind in BAD}}),
        "dtypes": sorted({row["dtype"] for row in rows}),
        "refused": refusals(rows),
    }
    path.write_text(json.dumps(kept, indent=1) + "\n")
