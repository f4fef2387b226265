"""The GPU benchmark: the single-kernel rows, a GPT block with and without CUDA graphs, the gallery.

python -m benchmarks.gpu --out results [--units generated] [--only softmax,gpt]. Units that are not there are generated
(which needs black); the gallery's are. Runs with torch, triton and numpy alone if they all are there. Under 8 minutes.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from pathlib import Path

import torch

from benchmarks import report
from benchmarks.cases import (
    GALLERY,
    BlockCall,
    contenders,
    eager,
    example,
    fused_row,
    model_row,
    torch_compile,
    unit,
)
from benchmarks.timing import Row, copy_bandwidth, measure

# Milliseconds that readable hand-written kernels reach on an H200.
_GOALS = {
    "softmax": 0.070,
    "layer_norm": 0.100,
    "cross_entropy": 0.173,
    "swiglu": 0.189,
    "bias_gelu": 0.187,
    "column_sum": 0.081,
    "transpose_add": 0.102,
}
_FUSED = (*_GOALS, "rms_norm", "gelu_residual")
_COPY_BYTES = 2**29


def rows(units: Path, workshop: Path) -> list[Row]:
    """All rows, cheap ones first."""
    all_rows = [
        fused_row(name, "default", units / "fused_ops_cuda" / name, "cuda", _GOALS.get(name))
        for name in _FUSED
    ]
    all_rows.append(
        Row(
            "gpt block B8 T1024",
            BlockCall(8, 1024, 1024, "cuda"),
            contenders(workshop / "gpt_block_large", "cuda"),
        )
    )
    small = BlockCall(1, 128, 1024, "cuda")
    all_rows.append(Row("gpt block B1 T128", small, contenders(workshop / "gpt_block_small", "cuda")))
    graphs = {
        "eager": eager,
        "torch.compile": functools.partial(torch_compile, mode="reduce-overhead"),
        "longhand": functools.partial(
            unit, folder=workshop / "gpt_block_graphs", device="cuda", mode="reduce-overhead"
        ),
    }
    all_rows.append(Row("gpt block B1 T128, CUDA graphs", small, graphs))
    all_rows += [
        model_row(name, "default", units / f"{name}_cuda", "cuda")
        for name in ("attention", "resnet_block", "llama_block", "gpt")
    ]
    return all_rows


def replay_rows(units: Path, workshop: Path) -> list[Row]:
    """The memory-bound rows in default mode and replayed as CUDA graphs, on inputs that stay where they are."""
    replayed_rows = []
    for name in _FUSED:
        call = functools.partial(example, f"examples.fused_ops:default.{name}", "cuda")
        modes = {
            "default": functools.partial(unit, folder=units / "fused_ops_cuda" / name, device="cuda"),
            "replay": functools.partial(
                unit, folder=workshop / f"{name}_graphs", device="cuda", mode="reduce-overhead"
            ),
        }
        replayed_rows.append(Row(name, call, modes, is_memory_bound=True))
    return replayed_rows


def main() -> None:
    """Measures, prints the table last, writes JSON (and the section of RESULTS.md if asked)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for gpu.json")
    parser.add_argument("--units", type=Path, default=GALLERY)
    parser.add_argument("--only", default="", help="words; rows whose name has one of them")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=440.0, help="start no row after this long")
    parser.add_argument(
        "--replay", action="store_true", help="replay against default mode, memory-bound rows"
    )
    parser.add_argument("--write-results", action="store_true", help="also into benchmarks/RESULTS.md")
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")  # TF32 products for everybody
    begin = time.perf_counter()
    words = [word for word in arguments.only.split(",") if word]
    bandwidth = copy_bandwidth("cuda", _COPY_BYTES)
    results, left_out = [], []
    with tempfile.TemporaryDirectory() as workshop:
        make_rows = replay_rows if arguments.replay else rows
        for row in make_rows(arguments.units, Path(workshop)):
            if words and not any(word in row.name for word in words):
                continue
            if time.perf_counter() - begin > arguments.seconds:
                left_out.append(row.name)
                continue
            result = measure(row, device="cuda", n_turns=arguments.turns, copy_bandwidth=bandwidth)
            results.append(result)
            for name, failure in result.failures.items():
                print(f"{row.name}: {name}: {failure}", flush=True)
            torch.cuda.empty_cache()
    notes = [f"Medians (minima) in ms; copy bandwidth {bandwidth / 1e12:.2f} TB/s, read plus written."]
    if any(result.inexact for result in results):
        notes.append(report.INEXACT)
    contenders = ["default", "replay"] if arguments.replay else ["eager", "torch.compile", "longhand"]
    cells = report.table(results, contenders)
    name, title = ("replay", "GPU: replayed") if arguments.replay else ("gpu", "GPU")
    report.write_json(arguments.out / f"{name}.json", "cuda", results, {"copy_bandwidth": bandwidth})
    if arguments.write_results:
        report.write_section(title, "cuda", cells, notes)
    print(report.machine("cuda"), *notes, sep="\n")
    if left_out:
        print("out of time, not run:", ", ".join(left_out))
    report.print_table(cells)


if __name__ == "__main__":
    main()
