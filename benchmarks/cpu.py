"""The CPU benchmark: the single-kernel rows in float32 and bfloat16, the gallery, Hugging Face models, compile times.

python -m benchmarks.cpu [--out results] [--only softmax,gpt] [--write-results]
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path

import torch

from benchmarks import report
from benchmarks.cases import GALLERY, contenders, eager, fused_row, longhand_compile, model_row, torch_compile
from benchmarks.compile_time import compile_times
from benchmarks.hugging_face import MODELS
from benchmarks.timing import Result, Row, copy_bandwidth, measure
from examples.fused_ops import FUNCTIONS, Sizes
from longhand.factory import Call

_COPY_BYTES = 2**27
_CONTENDERS = ("eager", "torch.compile", "longhand")


def rows(workshop: Path) -> list[Row]:
    """All rows."""
    names = [function.__name__ for function in FUNCTIONS]
    all_rows = [fused_row(name, "small", GALLERY / "fused_ops_cpu" / name, "cpu") for name in names]
    all_rows += [_bfloat16_row(name, workshop) for name in names]
    all_rows += [
        model_row(name, "small", GALLERY / f"{name}_cpu", "cpu")
        for name in ("attention", "gpt", "llama_block", "resnet_block")
    ]
    for name, make in MODELS.items():
        through_dynamo = {"eager": eager, "torch.compile": torch_compile, "longhand": longhand_compile}
        all_rows.append(Row(name, make, through_dynamo))
    return all_rows


def _bfloat16_row(name: str, workshop: Path) -> Row:
    def make() -> Call:
        function, args = getattr(Sizes(torch.bfloat16, 1), name)()
        return Call(function, args, {})

    folder = workshop / f"{name}_bf16"
    return dataclasses.replace(
        fused_row(name, "small", folder, "cpu"),
        name=f"{name} bf16",
        call=make,
        contenders=contenders(folder, "cpu"),
    )


def main() -> None:
    """Measures, prints, and writes what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for cpu.json")
    parser.add_argument("--only", default="", help="words; rows whose name has one of them")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--write-results", action="store_true", help="also into benchmarks/RESULTS.md")
    arguments = parser.parse_args()
    words = [word for word in arguments.only.split(",") if word]
    bandwidth = copy_bandwidth("cpu", _COPY_BYTES)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as workshop:
        for row in rows(Path(workshop)):
            if words and not any(word in row.name for word in words):
                continue
            result = measure(row, device="cpu", n_turns=arguments.turns, copy_bandwidth=bandwidth)
            results.append(result)
            report.print_table(report.table([result], _CONTENDERS)[1:])
            for name, failure in result.failures.items():
                print(f"    {name}: {failure}")
    timed = compile_times() if not words or "compile" in words else []
    notes = [f"Medians (minima) in ms; copy bandwidth {bandwidth / 1e9:.1f} GB/s, read plus written."]
    if any(result.inexact for result in results):
        notes.append(report.INEXACT)
    cells = report.table(results, _CONTENDERS)
    print(report.machine("cpu"), *notes, sep="\n")
    report.print_table(cells)
    if timed:
        report.print_table(timed)
    if arguments.out:
        report.write_json(
            arguments.out / "cpu.json", "cpu", results, {"copy_bandwidth": bandwidth, "compile_times": timed}
        )
    if arguments.write_results:
        report.write_section("CPU", "cpu", cells, notes)
        if timed:
            report.write_section(
                "Compile time on the CPU", "cpu", timed, ["Seconds, cold caches, one process each."]
            )


if __name__ == "__main__":
    main()
