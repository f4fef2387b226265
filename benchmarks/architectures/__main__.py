"""``python -m benchmarks.architectures [FAMILY | FAMILY/NAME ...]``: models of many packages, compiled and compared.

By default on the CPU: graphs and breaks of longhand's own capture and of torch's Dynamo, and inference against eager
and float64; ``--train`` a training step. ``--compile-only`` makes CUDA units and compiles every kernel, without a GPU;
``--interpret`` verifies them in Triton's interpreter. ``--device cuda`` runs and times them, in each ``--dtypes``.
``--json FILE`` keeps results as they come, and goes on from there. Exits 1 if a result is wrong, fails or crashes.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from benchmarks import report
from benchmarks.architectures import catalog
from benchmarks.architectures.document import write_document
from benchmarks.architectures.measures import measure
from benchmarks.architectures.processes import in_share, run_rows
from benchmarks.architectures.rows import Book, Part, Result, Verdict
from longhand.options import Frontend

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_GOOD = (Verdict.RIGHT, Verdict.NOT_MADE)
_PRELOADED = (
    "longhand.api",
    "longhand.compiling",
    "torch._dynamo",
    "transformers.models.llama.modeling_llama",
)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help="families, rows (FAMILY/NAME) or names; all by default")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtypes", default="", help="fp32,bf16; by default fp32, on CUDA both")
    parser.add_argument("--train", action="store_true", help="a training step instead of inference")
    parser.add_argument("--compile-only", action="store_true", help="compile every kernel for --arch")
    parser.add_argument("--interpret", action="store_true", help="run every kernel in Triton's interpreter")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--parts", default="", help=f"instead: {','.join(part.value for part in Part)}")
    parser.add_argument("--frontend", choices=("bytecode", "dynamo"), default="bytecode")
    parser.add_argument("-j", type=int, default=1, help="processes at once")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for each part of a row")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    parser.add_argument("--share", default="1/1", help="i/n: every n-th row from the i-th on")
    parser.add_argument("--json", type=Path, help="results so far; more are added")
    parser.add_argument("--again", action="store_true", help="measure anew what is in --json already")
    parser.add_argument("--list", action="store_true", help="only the rows' names")
    parser.add_argument(
        "--write-docs", action="store_true", help="docs/architectures.md from --json; runs nothing"
    )
    return parser.parse_args()


def _rows(words: list[str]) -> list[str]:
    """The rows that are named, in the catalog's order."""
    named = {word.partition("/")[0] for word in words}
    families = named if words and named <= set(catalog.FAMILIES) else set(catalog.FAMILIES)
    chosen_rows: list[str] = []
    for name in catalog.FAMILIES:
        family = catalog.FAMILIES[name]
        if name in families and not family.is_installed:
            print(f"{name}: skipped, {family.package} is not installed")
        elif name in families:
            rows = catalog.names_in(name)
            chosen_rows += [
                row for row in rows if not words or {name, row, row.partition("/")[2]} & set(words)
            ]
    return chosen_rows


def _parts(options: argparse.Namespace) -> list[Part]:
    if options.parts:
        return [Part(word) for word in options.parts.split(",")]
    if options.compile_only or options.interpret:
        return [Part.CUBINS] * options.compile_only + [Part.INTERPRETER] * options.interpret
    tried = Part.TRAINING if options.train else Part.INFERENCE
    if options.device == "cuda":
        return [Part.CAPTURE, Part.DYNAMO, Part.INFERENCE, Part.TRAINING, Part.SPEED]
    return [tried] if options.train else [Part.CAPTURE, Part.DYNAMO, tried]


def _setting(options: argparse.Namespace, dtype: str) -> str:
    """What results of one kind are kept under: ``cpu fp32``, ``cuda bf16 train``, ``sm_90``."""
    is_unit = options.compile_only or options.interpret
    words = [options.arch] if is_unit else [options.device, dtype]
    words += ["train"] * options.train + ["dynamo"] * (options.frontend == "dynamo")
    return " ".join(words)


def main() -> int:
    """Measures what is missing; prints a line for each part as it comes, and the counts last."""
    options = _options()
    book = Book(options.json)
    if options.write_docs:
        write_document(book, Path("docs/architectures.md"))
        return 0
    rows = list(in_share(_rows(options.rows), options.share))
    if options.list:
        print("\n".join(rows))
        return 0
    print(report.versions())
    for module in _PRELOADED:
        importlib.import_module(module)
    deadline = time.monotonic() + options.budget
    usual = ["fp32", "bf16"] if options.device == "cuda" else ["fp32"]
    dtypes = options.dtypes.split(",") if options.dtypes else usual
    counts: Counter[Verdict] = Counter()
    n_left = 0
    for dtype in dtypes:
        wanted = [
            part for part in _parts(options) if dtype == dtypes[0] or part not in (Part.CAPTURE, Part.DYNAMO)
        ]
        setting = _setting(options, dtype)
        jobs = []
        for row in rows:
            parts = [part for part in wanted if options.again or not book.knows(row, setting, part)]
            given = {
                part: functools.partial(
                    measure,
                    part=part,
                    device=options.device,
                    dtype=_DTYPES[dtype],
                    frontend=Frontend(options.frontend),
                    arch=options.arch,
                    train=options.train,
                )
                for part in parts
            }
            jobs += [(row, given)] if given else []

        def tell(row: str, part: Part, result: Result, setting: str = setting) -> None:
            counts[result.verdict] += 1
            book.add(row, setting, part, result)
            numbers = " ".join(f"{key}={_short(value)}" for key, value in result.numbers.items())
            print(
                f"{row:<36} {setting:<10} {part.value:<10} {result.verdict.value:<8} {result.seconds:>5.1f}s "
                f"{numbers} {result.note}"[:300],
                flush=True,
            )

        n_left += run_rows(jobs, tell, n_processes=options.j, timeout=options.timeout, deadline=deadline)
    print(", ".join(f"{count} {verdict.value}" for verdict, count in counts.most_common()) or "nothing to do")
    if n_left:
        print(f"{n_left} rows not begun or not finished: out of time")
    return int(any(count and verdict not in _GOOD for verdict, count in counts.items()))


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2g}"
    return str(len(value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    sys.exit(main())
