"""Tables of what was measured: mode against mode, part by part, with the geometric mean of the ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from benchmarks.models.row import Figures, RowResult

__all__ = ["kernel_tables", "tables"]

_PAIRS = (("torch.compile", "longhand"), ("torch.compile graphs", "longhand graphs"))
_COLUMNS = ("eager", *(name for pair in _PAIRS for name in pair))


def tables(results: Mapping[str, RowResult]) -> list[tuple[str, list[list[str]]]]:
    """(title, rows of cells) of each table; ratios are torch.compile's figure over longhand's: more is better."""
    titled_tables = []
    for title, is_asked in (("Inference", False), ("Training", True)):
        part = {name: one for name, one in results.items() if name.endswith("training") == is_asked}
        if not part:
            continue
        titled_tables += [
            (f"{title}: ms a call", _table(part, lambda one: one.ms, "{:.3f}")),
            (f"{title}: us until a call returns", _table(part, lambda one: one.host_us, "{:.0f}")),
        ]
        if any(one.kernel_ms for result in part.values() for one in result.figures.values()):
            titled_tables.append(
                (f"{title}: ms of kernels", _table(part, lambda one: one.kernel_ms, "{:.3f}"))
            )
        if any(one.peak_bytes for result in part.values() for one in result.figures.values()):
            titled_tables.append(
                (f"{title}: peak MiB", _table(part, lambda one: one.peak_bytes / 2**20, "{:.0f}"))
            )
    return titled_tables


def kernel_tables(results: Mapping[str, RowResult], n_kernels: int) -> list[tuple[str, list[list[str]]]]:
    """(title, rows of cells) for each contender of each row: its slowest kernels."""
    return [
        (
            f"{row}: {name}, {one.kernel_ms:.3f} ms in kernels",
            [["ms", "launches", "kernel"]]
            + [[f"{ms:.3f}", str(count), key[:110]] for key, count, ms in one.kernels[:n_kernels]],
        )
        for row, result in results.items()
        for name, one in result.figures.items()
        if one.kernels
    ]


def _table(part: Mapping[str, RowResult], figure: Callable[[Figures], float], text: str) -> list[list[str]]:
    header = ["model", *_COLUMNS, *(f"{ours} over" for _, ours in _PAIRS)]
    rows, ratios = [header], {pair: [] for pair in _PAIRS}
    for name, result in part.items():
        cells = [name]
        for column in _COLUMNS:
            one = result.figures.get(column)
            cells.append(text.format(figure(one)) if one else "failed" if column in result.failures else "")
        for pair in _PAIRS:
            theirs, ours = (result.figures.get(column) for column in pair)
            ratio = figure(theirs) / figure(ours) if theirs and ours and figure(ours) > 0 else 0.0
            if ratio > 0:
                ratios[pair].append(ratio)
            cells.append(f"{ratio:.2f}" if ratio > 0 else "")
        rows.append(cells)
    means = [f"{_geometric_mean(of_pair):.2f}" if of_pair else "" for of_pair in ratios.values()]
    return [*rows, ["geometric mean", *([""] * len(_COLUMNS)), *means]]


def _geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
