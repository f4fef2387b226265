"""Whole models on a GPU: eager, torch.compile and longhand in default mode and with CUDA graphs.

python -m benchmarks.models [FAMILY ... | chains] --json FILE [--parts inference,training] [--batches small,large]
    [--budget SECONDS] [--processes N] [--ready SECONDS]

Rows are compiled N at once, each in a process; then they are timed one by one, while nothing else runs. What is in the
file is not measured again: a run goes on where the last one ended. Results (and gradients) are compared with a wider
dtype's first; what is farther off than twice eager's error is not timed. ``--show`` prints the file's tables alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import torch

from benchmarks import report
from benchmarks.models.chains import CHAINS
from benchmarks.models.contenders import CONTENDERS
from benchmarks.models.families import FAMILIES
from benchmarks.models.processes import measure_rows
from benchmarks.models.row import Figures, Row, RowResult
from benchmarks.models.tables import kernel_tables, tables

_N_KERNELS = 24
KNOWN = FAMILIES | CHAINS


def rows_of(families: list[str], parts: list[str], batches: list[str]) -> list[Row]:
    """The rows that were asked for, all families of one part and batch together."""
    return [
        Row(name, getattr(KNOWN[name], batch), part == "training")
        for part in parts
        for batch in batches
        for name in families
        if part == "inference" or KNOWN[name].trains
    ]


def read(path: Path) -> dict[str, RowResult]:
    """What earlier runs measured."""
    if not path.exists():
        return {}
    return {
        name: RowResult({who: Figures(**one) for who, one in row["figures"].items()}, row["failures"])
        for name, row in json.loads(path.read_text())["rows"].items()
    }


def write(path: Path, results: dict[str, RowResult], machine: str) -> None:
    """Everything measured so far."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {name: dataclasses.asdict(result) for name, result in results.items()}
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def main() -> None:
    """Measures what is missing, and prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "families", nargs="*", help=f"by default all of: {', '.join(FAMILIES)}; chains: those of convolutions"
    )
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--parts", default="inference,training")
    parser.add_argument("--batches", default="small,large")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="of these, by default all")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--budget", type=float, default=500.0, help="seconds in all: no row begins later")
    parser.add_argument("--ready", type=float, default=150.0, help="seconds in which rows must be compiled")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--kernels", action="store_true", help="also what each kernel takes")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    families = [one for name in options.families for one in ([*CHAINS] if name == "chains" else [name])]
    if unknown := sorted({*families}.difference(KNOWN)):
        parser.error(f"no such family: {', '.join(unknown)}; there are {', '.join(KNOWN)}")
    results = read(options.json)
    rows = rows_of(families or [*FAMILIES], options.parts.split(","), options.batches.split(","))
    machine = report.versions()  # nothing is asked of the GPU: rows are forked from this process

    def tell(row: Row, result: RowResult) -> None:
        results[row.name] = result
        write(options.json, results, machine)
        for name, failure in result.failures.items():
            print(f"{row.name}: {name}: {failure}", flush=True)

    if not options.show:
        torch.set_float32_matmul_precision("high")
        left = measure_rows(
            [row for row in rows if row.name not in results],
            tell,
            device=options.device,
            n_processes=options.processes,
            ready_seconds=options.ready,
            deadline=time.monotonic() + options.budget,
            n_turns=options.turns,
            kernels=options.kernels,
            contenders=options.contenders.split(","),
        )
        if left:
            print("not measured:", ", ".join(row.name for row in left))
    print(machine)
    measured = {row.name: results[row.name] for row in rows if row.name in results}
    for title, cells in tables(measured) + (kernel_tables(measured, _N_KERNELS) if options.kernels else []):
        print(f"\n{title}")
        report.print_table(cells)


if __name__ == "__main__":
    main()
