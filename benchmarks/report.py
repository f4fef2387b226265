"""Results as a table for the terminal, as JSON, and as a section of benchmarks/RESULTS.md."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path

import torch
import triton

from benchmarks.timing import Result

INEXACT = "*: timed, but farther from float64 than twice eager's error or one unit in the last place."
_RESULTS = Path(__file__).resolve().parent / "RESULTS.md"


def machine(device: str) -> str:
    """The machine and the versions, in a line."""
    name = torch.cuda.get_device_name() if device == "cuda" else _processor()
    return f"{name}, {versions()}"


def versions() -> str:
    """What every result depends on, in a line; asks nothing of the GPU, so that a process may still fork."""
    return f"torch {torch.__version__}, triton {triton.__version__}, Python {platform.python_version()}"


def table(results: Sequence[Result], contenders: Sequence[str]) -> list[list[str]]:
    """A header and a row for each result: median (minimum) ms, speedups of the last contender, share of bandwidth.

    An asterisk marks what is less exact than `longhand.verify.comparison` allows, and speedups over it.
    """
    ours = contenders[-1]
    header = ["case", *contenders, *(f"over {name}" for name in contenders[:-1]), "of copy", "goal"]
    rows = [header]
    for result in results:
        cells = [result.name]
        for name in contenders:
            measured = result.times.get(name)
            mark = "*" * (name in result.inexact)
            cells.append(f"{measured.median:.3f} ({measured.minimum:.3f}){mark}" if measured else "failed")
        for name in contenders[:-1]:
            both = result.times.get(name), result.times.get(ours)
            mark = "*" * (name in result.inexact)
            cells.append(f"{both[0].median / both[1].median:.2f}x{mark}" if both[0] and both[1] else "")
        share = result.peak_share.get(ours)
        cells.append(f"{share:.0%}" if share else "")
        cells.append(f"{result.goal_ms:.3f}" if result.goal_ms else "")
        rows.append(cells)
    return rows


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Prints columns of equal width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def write_json(path: Path, device: str, results: Sequence[Result], extra: dict[str, object]) -> None:
    """Everything measured, for other programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine(device),
        "date": datetime.date.today().isoformat(),
        "results": [dataclasses.asdict(result) for result in results],
        **extra,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def write_section(title: str, device: str, rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    """Replaces the section of RESULTS.md with that title, or adds it."""
    text = _RESULTS.read_text() if _RESULTS.exists() else "# Results\n"
    lines = [f"## {title}", "", f"{datetime.date.today().isoformat()}, {machine(device)}.", "", *notes, ""]
    lines.append("| " + " | ".join(rows[0]) + " |")
    lines.append("|---" * len(rows[0]) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    section = "\n".join(lines) + "\n"
    pattern = re.compile(rf"^## {re.escape(title)}$.*?(?=^## |\Z)", re.M | re.S)
    kept = text if pattern.search(text) else text.rstrip() + f"\n\n## {title}\n"
    text = pattern.sub(lambda _: section + "\n", kept)
    _RESULTS.write_text(text.rstrip() + "\n")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()}, {torch.get_num_threads()} threads"
    except OSError:
        pass
    return platform.processor() or platform.machine()
