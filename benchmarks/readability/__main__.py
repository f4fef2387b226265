"""Prints the table, says what is worse than in baseline.json, and exits with 1 if anything is."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator

import torch

from benchmarks.readability.baseline import BASELINE, Counts, count, regressions, table
from benchmarks.readability.depth import DEEP, growth
from benchmarks.readability.units import MODELS, unit_text
from benchmarks.report import print_table
from longhand.errors import GraphBreakError

_DEVICES = ("cpu", "cuda")
_DEEPER = "8 layers "


def _read(names: list[str], device: str | None, is_told: bool) -> Iterator[tuple[str, dict[str, int]]]:
    """Each unit that is asked for, as it is read, and its counts."""
    for model in MODELS:
        for kind in [device] if device else _DEVICES:
            if _is_wanted(model, names):
                yield f"{model} {kind}", count(unit_text(model, kind), is_told)
    for place, model in enumerate(DEEP):
        kind = _DEVICES[place % 2]
        if _is_wanted(f"{_DEEPER}{model}", names) and device in (None, kind):
            try:
                both = growth(model, kind)
            except GraphBreakError as error:  # no unit, so there is nothing to read
                print(f"{_DEEPER}{model} {kind} is not read: {error}")
                continue
            yield f"{_DEEPER}{model} {kind}", {**count(both.many, is_told), **both.percentages}


def _is_wanted(model: str, names: list[str]) -> bool:
    return not names or any(name in model for name in names)


def main() -> int:
    """Reads the models and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORD",
        help="models with this in their names; may be repeated",
    )
    parser.add_argument("--device", choices=_DEVICES, help="only this one")
    parser.add_argument("--list", action="store_true", help="say where each thing stands")
    parser.add_argument("--update", action="store_true", help="record the counts as the baseline")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: Counts = {}
    began = time.monotonic()
    for unit, counted in _read(options.only, options.device, options.list):
        counts[unit] = counted
        print(f"{time.monotonic() - began:6.0f} s  {unit}", file=sys.stderr, flush=True)
        if options.update:  # as they come: a run that was ended goes on with --only
            BASELINE.write_text(json.dumps(_baseline() | {unit: counted}, indent=1, sort_keys=True) + "\n")
    print_table(table(counts))
    worse = regressions(counts, _baseline())
    print("\n".join(worse))
    return 1 if worse else 0


def _baseline() -> Counts:
    counts: Counts = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    return counts


if __name__ == "__main__":
    sys.exit(main())
