"""`longhand tune` on the command line: the progress bar, the table at the end, JSON."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from longhand.cli import screen
from longhand.cli.styles import report
from longhand.emit.unit.lock_file import read_lock
from longhand.tune.tuning import Tuning, tune

_MOST_SKIPPED = 8
_INTERRUPTED = 130


def run_tune(
    folder: Path, kernels: tuple[str, ...], includes_persons: bool, budget: float, is_json: bool
) -> int:
    """Tunes and shows."""
    tunings: list[Tuning] = []
    n_kernels = len(kernels) or len(read_lock(folder).get("kernels", {}))
    is_interrupted = False
    with _progress(n_kernels) as (tell, advance):
        try:
            for tuning in tune(folder, kernels, includes_persons=includes_persons, budget=budget, tell=tell):
                tunings.append(tuning)
                advance()
        except KeyboardInterrupt:
            is_interrupted = True
    if is_json:
        report(json.dumps(_as_json(folder, tunings, is_interrupted), indent=1))
    else:
        show_tunings(folder, tunings)
        if is_interrupted:
            click.echo(f"Interrupted: {len(tunings)} of {n_kernels} kernels were looked at.")
    return _INTERRUPTED if is_interrupted else 0


@contextlib.contextmanager
def _progress(n_kernels: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """A bar on stderr, where that is a terminal: what is tried, and kernels done."""
    console = screen.console(stderr=True)
    columns = (
        BarColumn(16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=n_kernels)
        yield (
            lambda words: progress.update(task, description=words),
            lambda: progress.advance(task),
        )


def show_tunings(folder: Path, tunings: list[Tuning]) -> None:
    """The table, and below it why kernels stayed and what could not be."""
    if not tunings:
        return
    table = Table(
        "kernel", "tunable", "before", "now", "ms", "now", "GB/s", "noise", box=None, pad_edge=False
    )
    for column in table.columns[2:]:
        column.justify = "right"
    table.columns[0].overflow = "fold"
    for tuning in tunings:
        for number, row in enumerate(_rows(tuning)):
            table.add_row(*(tuning.kernel, *row) if number == 0 else ("", *row))
    console = screen.console()
    console.print(table)
    for tuning in tunings:
        if tuning.note:
            console.print(f"{tuning.kernel}: {tuning.note}")
    skipped = [(tuning, *one) for tuning in tunings for one in tuning.skipped]
    for tuning, values, reason in skipped[:_MOST_SKIPPED]:
        words = ", ".join(f"{name} {value}" for name, value in values.items())
        console.print(f"skipped {tuning.kernel} with {words}: {reason}")
    if len(skipped) > _MOST_SKIPPED:
        console.print(f"and {len(skipped) - _MOST_SKIPPED} more, listed with --json")
    changed = [tuning for tuning in tunings if tuning.is_changed]
    if changed:
        files = f"{len(changed)} file{'s' * (len(changed) != 1)}"
        console.print(f"{files} edited: longhand diff {folder}", soft_wrap=True)
    else:
        console.print("Nothing was changed.")


def _rows(tuning: Tuning) -> list[tuple[str, ...]]:
    """The cells behind the kernel's name: a row for each tunable that changed, or one that says it stays."""
    times: tuple[str, ...] = ("", "", "", "")
    if tuning.ms_before is not None and tuning.ms_after is not None:
        gb_per_s = tuning.bytes_moved / tuning.ms_after / 1e6
        now = f"{tuning.ms_after:.4f}" if tuning.is_changed else ""
        times = (f"{tuning.ms_before:.4f}", now, f"{gb_per_s:.1f}", f"{100 * tuning.noise:.1f}%")
    changes = [
        (name, str(value), str(tuning.after[name]))
        for name, value in tuning.before.items()
        if tuning.after[name] != value
    ]
    if not changes:
        return [("kept", "", "", *times)]
    return [(*change, *(times if number == 0 else ())) for number, change in enumerate(changes)]


def _as_json(folder: Path, tunings: list[Tuning], is_interrupted: bool) -> dict[str, Any]:
    return {
        "unit": str(folder),
        "interrupted": is_interrupted,
        "kernels": {
            tuning.kernel: {
                "path": tuning.path,
                "changed": tuning.is_changed,
                "before": tuning.before,
                "after": tuning.after,
                "ms_before": tuning.ms_before,
                "ms_after": tuning.ms_after,
                "gb_per_s_before": _gb_per_s(tuning, tuning.ms_before),
                "gb_per_s_after": _gb_per_s(tuning, tuning.ms_after),
                "noise": tuning.noise,
                "tried": tuning.n_tried,
                "skipped": [{"values": values, "reason": reason} for values, reason in tuning.skipped],
                "note": tuning.note,
            }
            for tuning in tunings
        },
    }


def _gb_per_s(tuning: Tuning, ms: float | None) -> float | None:
    return tuning.bytes_moved / ms / 1e6 if ms else None
