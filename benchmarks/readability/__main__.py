"""Prints the table, says what is worse than in baseline.json, and exits with 1 if anything is."""

from __future__ import annotations

import argparse
import json
import sys

import torch

from benchmarks.readability.baseline import BASELINE, Counts, count, regressions, table
from benchmarks.readability.units import MODELS, unit_text
from benchmarks.report import print_table


def main() -> int:
    """Reads the models and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="only this one")
    parser.add_argument("--list", action="store_true", help="say where each thing stands")
    parser.add_argument("--update", action="store_true", help="record the counts as the baseline")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: Counts = {}
    for model in options.models:
        for device in [options.device] if options.device else ["cpu", "cuda"]:
            counts[f"{model} {device}"] = count(unit_text(model, device), options.list)
    print_table(table(counts))
    baseline: Counts = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    if options.update:
        BASELINE.write_text(json.dumps(baseline | counts, indent=1, sort_keys=True) + "\n")
        return 0
    worse = regressions(counts, baseline)
    print("\n".join(worse))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
